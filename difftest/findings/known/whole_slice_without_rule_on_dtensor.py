"""No sharding rule for `alias`: indexing by slices that leave nothing out, as a causal mask of full length.

torch 2.9.0 on the CPU. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
mask = distribute_tensor(torch.ones(4, 4), mesh, [Replicate()])
print("a slice that leaves a row out:", mask[:3, :].shape)
print("expected (4, 4), actual", mask[:4, :4].shape)
