"""`linalg.cross` with a sharded dim of size 1 fails instead of broadcasting."""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh, NUMBERS = init_device_mesh("cpu", (2,)), torch.rand(4, 3)


def cut(tensor: torch.Tensor, dim: int = 0) -> DTensor:
    return distribute_tensor(tensor, mesh, [Shard(dim)])


print("expected a DTensor, actual", torch.linalg.cross(cut(NUMBERS[:1]), cut(torch.rand(5, 3))))
