"""The gradient of a convolution whose input needs none fails on a mesh of two axes.

torch 2.15.0. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.functional import conv2d
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh, grid = init_device_mesh("cpu", (4,)), init_device_mesh("cpu", (2, 2))


def of(*shape: int, on: DeviceMesh = mesh) -> DTensor:
    return distribute_tensor(torch.rand(shape), on, [Replicate()] * on.ndim).requires_grad_()


def convolution(*placements: Shard | Replicate) -> DTensor:
    images = distribute_tensor(torch.rand(4, 3, 8, 8), grid, placements)
    return conv2d(images, of(6, 3, 3, 3, on=grid), of(6, on=grid))


print("expected a result, actual", convolution(Shard(0), Replicate()).sum().backward())
