"""`einsum` is refused where it flattens a sharded dim behind another, as of experts whose width is sharded.

The layout names no communication: every rank can compute its slice of the width. torch 2.9.0 on the CPU. One of
two ranks of torch's fake process group.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
rows = distribute_tensor(torch.rand(3, 8), mesh, [Replicate()])
experts = distribute_tensor(torch.rand(4, 8, 6), mesh, [Shard(2)])
print("expected a result of shape (3, 4, 6), actual", torch.einsum("rw,ewh->reh", rows, experts).shape)
