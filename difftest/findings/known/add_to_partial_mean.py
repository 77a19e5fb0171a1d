"""A DTensor's mean over a sharded dim cannot be added to a replicated tensor without dims.

The mean is a partial one, which the tensor is to become too; only partial sums are supported. torch 2.9.0.
The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
numbers = distribute_tensor(torch.ones(2), mesh, [Shard(0)])
number = distribute_tensor(torch.tensor(1.0), mesh, [Replicate()])
print("expected torch.Size([1]), actual", (numbers.mean(0, keepdim=True) + number).shape)
