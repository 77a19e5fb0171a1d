"""A linear layer refuses a batch that a mesh axis of one rank shards.

torch 2.15.0, the second of two ranks of torch's fake process group.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
one_by_two = init_device_mesh("cpu", (1, 2))
NUMBERS = torch.rand(4, 3)


def row() -> DTensor:
    rows = distribute_tensor(torch.rand(1, 4, 3), one_by_two, [Shard(0), Replicate()])
    return functional.linear(rows, distribute_tensor(NUMBERS, one_by_two, [Replicate()] * 2))


print("expected a DTensor, actual", row())
