"""`solve` and `solve_triangular` of batched matrices with one right-hand side fail."""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def cut(tensor: torch.Tensor, dim: int = 0) -> DTensor:
    return distribute_tensor(tensor, mesh, [Shard(dim)])


def whole(tensor: torch.Tensor) -> DTensor:
    return distribute_tensor(tensor, mesh, [Replicate()])


def solve() -> DTensor:
    return torch.linalg.solve(cut(torch.rand(4, 3, 3)), whole(torch.rand(3, 2)))


print("expected a DTensor, actual", solve())
