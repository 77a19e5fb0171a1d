"""A GRU fails where its cells have a partial sum: `tanh_` of one is not supported.

torch 2.15.0. The group is a fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
print("expected a result, actual", DTensor.from_local(torch.rand(4, 6), mesh, [Partial()]).tanh_())
