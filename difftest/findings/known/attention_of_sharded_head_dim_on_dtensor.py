"""`scaled_dot_product_attention` fails if the last dim of keys or values is sharded.

torch 2.15.0. The group is a fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def attention() -> DTensor:
    query = distribute_tensor(torch.rand(2, 2, 3, 4), mesh, [Replicate()])
    return scaled_dot_product_attention(query, *[query.redistribute(placements=[Shard(3)])] * 2)


print("expected a result, actual", attention())
