"""A sharded embedding fails on a rank that holds none of its rows: 6 rows on 4 ranks are 2, 2, 2 and 0.

The last of four ranks of torch's fake process group. torch 2.9.0 and 2.15.0.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=3, world_size=4)
mesh = init_device_mesh("cpu", (4,))
weight = distribute_tensor(torch.rand(6, 2), mesh, [Shard(0)])
tokens = distribute_tensor(torch.tensor([0, 5]), mesh, [Replicate()])
print("expected torch.Size([2, 2]), actual", torch.nn.functional.embedding(tokens, weight).shape)
