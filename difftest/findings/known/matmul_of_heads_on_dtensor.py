"""A product of matrices that are sharded over their second batch dim, as attention's heads, is refused.

It is a view of one batch dim, which would need the shards in another order. torch 2.9.0; 2.15.0 computes
it. One of two ranks of torch's fake process group.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
query, key = (distribute_tensor(torch.rand(2, 4, 8, 3), mesh, [Shard(1)]) for _ in range(2))
print("expected a product of shape (2, 4, 8, 8), actual", tuple((query @ key.mT).shape))
