"""DTensor has no sharding rule for `_weight_norm_interface`.

torch 2.9.0 on the CPU. The process group is torch's fake one.
"""

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.nn.utils.parametrizations import weight_norm
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
images = distribute_tensor(torch.rand(4, 2, 6, 6), mesh, [Shard(0)])
rows = distribute_tensor(torch.rand(4, 6), mesh, [Shard(0)])
whole = distribute_tensor(torch.rand(4, 6), mesh, [Replicate()])
ids = distribute_tensor(torch.arange(4), mesh, [Replicate()])


def placed(module: nn.Module) -> nn.Module:
    return distribute_module(module, mesh)


with implicit_replication():
    print("expected a result, actual", placed(weight_norm(nn.Linear(6, 3)))(rows))
