"""`amin` with a replicated `out` gives it the placements of the result, and resizes its local tensor.

Whoever takes `out` for replicated, as one who saves a buffer from rank 0, gets a part of the values.
torch 2.9.0. One of two ranks of torch's fake process group. Exits 0 when the fault is there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))

result = distribute_tensor(torch.zeros(4), mesh, [Replicate()])
torch.amin(distribute_tensor(torch.rand(3, 4), mesh, [Shard(1)]), 0, out=result)
actual = f"{result.placements} {tuple(result.to_local().shape)}"
print(f"expected (Replicate(),) (4,), actual {actual}")
sys.exit(1 if result.placements == (Replicate(),) else 0)
