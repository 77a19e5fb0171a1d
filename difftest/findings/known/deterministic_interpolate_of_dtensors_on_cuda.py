"""Bilinear `interpolate` fails on CUDA with deterministic algorithms.

torch 2.15.0. Without such algorithms the call works, or says that DTensor has no rule. Tensors and group are
fake, so that no GPU is needed; an H100 shows the same.
"""

import torch
from torch import distributed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate
from torch.nn.functional import interpolate
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = DeviceMesh("cuda", [0, 1], _init_backend=False)
torch.use_deterministic_algorithms(mode=True)
with FakeTensorMode():
    local = torch.empty((1, 2, 4, 4), device="cuda:0", requires_grad=True)
    print("expected", tuple(interpolate(local, scale_factor=2, mode="bilinear").shape))
    print(
        "actual",
        interpolate(
            DTensor.from_local(local, mesh, [Replicate()], run_check=False), scale_factor=2, mode="bilinear"
        ).shape,
    )
