"""`clip_grad_value_` over partial gradients fails, as it clamps in place."""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh, NUMBERS = init_device_mesh("cpu", (2,)), torch.rand(4, 3)
print("expected a DTensor, actual", DTensor.from_local(NUMBERS, mesh, [Partial()]).clamp_(max=0.1))
