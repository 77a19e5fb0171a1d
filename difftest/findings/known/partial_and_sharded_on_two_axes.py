"""The sum of two DTensors fails where one of two mesh axes shards the one and makes the other partial.

A residual connection adds up such gradients. On a mesh of one axis DTensor reduces the partial one. torch
2.9.0. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh = init_device_mesh("cpu", (2, 2))
one = DTensor.from_local(torch.rand(2, 4), mesh, [Shard(0), Partial()])
other = DTensor.from_local(torch.rand(2, 4), mesh, [Partial(), Shard(0)])
print("expected a DTensor, actual", (one + other).placements)
