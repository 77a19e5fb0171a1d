"""The gradient of `chunk` fails if a part is not used: DTensor concatenates it with plain zeros.

A packed projection of which one part is dropped trains on one device. torch 2.9.0. The process group is
torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))

packed = distribute_tensor(torch.ones(4, 8, requires_grad=True), mesh, [Shard(0)])
used, _unused = packed.chunk(2, dim=-1)
used.sum().backward()
