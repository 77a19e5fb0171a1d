"""`max_unpool2d` of an unbatched, row-sharded image fails."""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def cut(tensor: torch.Tensor, dim: int = 0) -> DTensor:
    return distribute_tensor(tensor, mesh, [Shard(dim)])


def max_unpool() -> DTensor:
    pooled, indices = functional.max_pool2d(torch.rand(1, 4, 4), 2, return_indices=True)
    rows = DTensor.from_local(indices[:, :1], mesh, [Shard(1)])
    return functional.max_unpool2d(cut(pooled, 1), rows, 2).full_tensor()


print("expected a DTensor, actual", max_unpool())
