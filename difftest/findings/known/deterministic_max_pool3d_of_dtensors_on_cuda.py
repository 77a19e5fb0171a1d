"""`max_pool3d` fails on CUDA with deterministic algorithms.

torch 2.15.0. Without such algorithms the call works, or says that DTensor has no rule. Tensors and group are
fake, so that no GPU is needed; an H100 shows the same.
"""

import torch
from torch import distributed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate
from torch.nn.functional import max_pool3d
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = DeviceMesh("cuda", [0, 1], _init_backend=False)
torch.use_deterministic_algorithms(mode=True)
with FakeTensorMode():
    local = torch.empty((1, 2, 3, 6, 5), device="cuda:0", requires_grad=True)
    print("expected", tuple(max_pool3d(local, 3, 2, ceil_mode=True, return_indices=True)[0].shape))
    print(
        "actual",
        max_pool3d(
            DTensor.from_local(local, mesh, [Replicate()], run_check=False),
            3,
            2,
            ceil_mode=True,
            return_indices=True,
        )[0].shape,
    )
