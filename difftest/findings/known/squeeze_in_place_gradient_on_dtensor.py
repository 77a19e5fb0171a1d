"""The gradient of `squeeze_` has a dim too many.

torch 2.15.0. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh = init_device_mesh("cpu", (4,))


def of(*shape: int, on: DeviceMesh = mesh) -> DTensor:
    return distribute_tensor(torch.rand(shape), on, [Replicate()] * on.ndim).requires_grad_()


print("expected a result, actual", (of(4, 1, 4) * 1).squeeze_(1).sum().backward())
