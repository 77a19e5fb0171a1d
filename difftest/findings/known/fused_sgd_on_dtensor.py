"""No sharding rule for `_fused_sgd_`, so fused SGD updates nothing.

DTensor has no rule for the operators of their steps. torch 2.9.0 and 2.15.0. The process group is torch's
fake one.
"""

import torch
from torch import distributed, optim
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
model = fully_shard(torch.nn.Linear(4, 4), mesh=mesh)
optimizer = optim.SGD(model.parameters(), fused=True)
model(torch.rand(2, 4)).sum().backward()
optimizer.step()
print("expected a step, actual a step")
