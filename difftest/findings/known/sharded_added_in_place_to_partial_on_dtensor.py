"""A sharded tensor cannot be added in place to a partial sum, where `a + b` of the same tensors is computed.

torch 2.9.0 on the CPU. A decoder whose attention and feed-forward run side by side does this, as Falcon's:
`mlp_output += attention_output`. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Placement, Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def of(*shape: int, to: Placement) -> torch.Tensor:
    return distribute_tensor(torch.rand(shape), mesh, [to])


attention = of(2, 4, to=Shard(1))
product = of(2, 6, to=Replicate()) @ of(6, 4, to=Shard(0))
print("not in place:", (product + attention).placements)
product += attention
print("expected a sum, actual", product.shape)
