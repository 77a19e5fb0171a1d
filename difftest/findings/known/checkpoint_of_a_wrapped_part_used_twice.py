"""A checkpointed module with a part in `fully_shard` fails in the backward pass if it was called twice before.

torch 2.9.0 and 2.15.0. The process group is torch's fake one.
"""

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import checkpoint

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
fully_shard(model[0], mesh=init_device_mesh("cpu", (2,)))
x = torch.ones(1, 4, requires_grad=True)
first = checkpoint(model, x, use_reentrant=False)
(first * checkpoint(model, x, use_reentrant=False)).sum().backward()
