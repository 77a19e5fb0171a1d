"""The gradient of `nanquantile` fails: it has a dim too many.

torch 2.15.0. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def whole(*shape: int) -> DTensor:
    return distribute_tensor(torch.rand(shape) + 3, mesh, [Replicate()]).requires_grad_()


TARGETS = distribute_tensor(torch.ones(1, 2, dtype=torch.int64), mesh, [Replicate()])
print(
    "expected a result, actual",
    torch.nanquantile(whole(3, 2, 1, 2), 0.5, dim=0, keepdim=True).sum().backward(),
)
