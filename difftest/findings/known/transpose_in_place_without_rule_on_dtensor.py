"""No sharding rule for `transpose_`, as in GRU with `batch_first`.

torch 2.9.0 on the CPU. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
images = distribute_tensor(torch.rand(4, 2, 6, 6), mesh, [Shard(0)])
rows = distribute_tensor(torch.rand(4, 6), mesh, [Shard(0)])
whole = distribute_tensor(torch.rand(4, 6), mesh, [Replicate()])
ids = distribute_tensor(torch.arange(4), mesh, [Replicate()])
with implicit_replication():
    print("expected a result, actual", whole.clone().transpose_(0, 1))
