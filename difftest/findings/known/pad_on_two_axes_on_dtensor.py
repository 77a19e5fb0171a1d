"""`constant_pad_nd`, also that of Fourier transforms, fails on a mesh of two axes.

torch 2.9.0. The second of two ranks of torch's fake process group. Exits 0 while the fault is there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.functional import pad
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
grid, WHOLE = init_device_mesh("cpu", (1, 2)), Replicate()


def local(result: torch.Tensor) -> str:
    """The placements of a result, and the shape that this rank holds."""
    return f"{' '.join(map(str, result.placements))} {tuple(result.to_local().shape)}"


try:
    actual = local(pad(distribute_tensor(torch.rand(4), grid, [Shard(0), WHOLE]), (1, 1)))
except (IndexError, RuntimeError) as error:
    actual = f"{type(error).__name__}: {error}"
print(f"expected R R (6,), actual {actual[:160]!r}")
sys.exit(actual == "R R (6,)")
