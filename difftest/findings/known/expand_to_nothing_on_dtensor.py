"""`expand` of a sharded dim of size 1 to 0 fails.

torch 2.15.0. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh = init_device_mesh("cpu", (4,))
print("expected a result, actual", distribute_tensor(torch.rand(4, 1), mesh, [Shard(1)]).expand(4, 0))
