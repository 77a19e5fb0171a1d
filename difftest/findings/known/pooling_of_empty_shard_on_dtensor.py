"""`avg_pool1d`, `lp_pool1d` and `max_pool1d` fail on a rank without channels.

torch 2.15.0, the second of two ranks of torch's fake process group.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh = init_device_mesh("cpu", (2,))
NUMBERS = torch.rand(4, 3)


def pool() -> DTensor:
    return functional.avg_pool1d(distribute_tensor(NUMBERS[:1], mesh, [Shard(0)]), 2)


print("expected a DTensor, actual", pool())
