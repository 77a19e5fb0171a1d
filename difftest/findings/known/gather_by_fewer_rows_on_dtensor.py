"""`gather` of sharded rows by an index of fewer rows pairs the rows of each rank's shards, which are others.

So is the gradient of `scatter_add` wrong. The second of two ranks of torch's fake process group.
torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys

import torch
from torch import Tensor, distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh = init_device_mesh("cpu", (2,))
numbers, index = torch.arange(12.0).view(6, 2), torch.zeros(4, 2, dtype=torch.int64)


def second_half(tensor: Tensor) -> DTensor:
    return DTensor.from_local(tensor.chunk(2)[1].clone(), mesh, [Shard(0)])


expected = numbers.gather(1, index).chunk(2)[1].tolist()
result = second_half(numbers).gather(1, second_half(index))
actual = result.to_local().tolist()
print(f"{result.placements} of {tuple(result.shape)}: expected {expected}, actual {actual}")
sys.exit(0 if actual == [[6.0, 6.0], [8.0, 8.0]] != expected else 1)
