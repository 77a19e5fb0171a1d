"""DTensor has no rule for `_fused_adagrad_`: `Adagrad(fused=True)` fails, as on what `fully_shard` has sharded.

torch 2.9.0 and 2.15.0. The process group is torch's fake one.
"""

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
weight = nn.Parameter(distribute_tensor(torch.ones(4), init_device_mesh("cpu", (2,)), [Shard(0)]))
weight.grad = torch.ones_like(weight)
torch.optim.Adagrad([weight], fused=True).step()
