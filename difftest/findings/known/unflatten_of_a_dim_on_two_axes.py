"""A dim that two mesh axes shard cannot be merged with the one before it and split off again.

torch 2.15.0. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("cp", "tp"))
rows = distribute_tensor(torch.ones(4, 16, 2), mesh, [Shard(1), Shard(1)])
print("expected a result, actual", rows.flatten(0, 1).unflatten(0, (4, 16)).placements)
