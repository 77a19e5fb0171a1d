"""No sharding rule for `!=`, where `==` has one.

torch 2.9.0. `==` and the loss written out have rules. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def cut() -> DTensor:
    return distribute_tensor(torch.rand(4, 3), mesh, [Shard(0)])


print(cut() == cut(), (cut() - cut()).square().mean())
print("expected a result, actual", cut() != cut())
