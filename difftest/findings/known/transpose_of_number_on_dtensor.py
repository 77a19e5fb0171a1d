"""`transpose(0, 0)` of a DTensor without dims raises; torch gives the tensor itself.

torch 2.9.0. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
number = torch.tensor(1.0)
actual = str(distribute_tensor(number, init_device_mesh("cpu", (2,)), [Replicate()]).transpose(0, 0))
print(f"expected {number.transpose(0, 0)}, actual {actual[:160]}")
