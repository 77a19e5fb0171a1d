"""`index_put` of sharded tensors or values looks up global rows in the local shard.

torch 2.9.0. The second of two ranks of torch's fake process group. Exits 0 while the fault is there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
line, WHOLE = init_device_mesh("cpu", (2,)), Replicate()


def of(*shape: int, to: Placement) -> DTensor:
    return distribute_tensor(torch.rand(shape), line, [to])


def local(result: torch.Tensor) -> str:
    """The placements of a result, and the shape that this rank holds."""
    return f"{' '.join(map(str, result.placements))} {tuple(result.to_local().shape)}"


def index_put() -> torch.Tensor:
    rows = distribute_tensor(torch.tensor([0, 3]), line, [WHOLE])
    return torch.index_put(of(4, 2, to=WHOLE), (rows,), of(2, 2, to=Shard(0)))


try:
    actual = local(index_put())
except (IndexError, RuntimeError) as error:
    actual = f"{type(error).__name__}: {error}"
print(f"expected R (4, 2), actual {actual[:160]!r}")
sys.exit(actual == "R (4, 2)")
