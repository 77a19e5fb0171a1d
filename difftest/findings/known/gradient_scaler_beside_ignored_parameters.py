"""`GradScaler` fails where `fully_shard` ignores a parameter, because it takes all gradients together.

torch 2.9.0 and 2.15.0. The process group is torch's fake one.
"""

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
model = nn.Linear(4, 4)
fully_shard(model, mesh=init_device_mesh("cpu", (2,)), ignored_params={model.bias})
optimizer = torch.optim.SGD(model.parameters(), foreach=False)
scaler = torch.amp.GradScaler("cpu")
scaler.scale(model(torch.ones(1, 4)).sum()).backward()
scaler.step(optimizer)
