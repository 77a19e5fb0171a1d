"""The gradient of a layer norm's weight under autocast is a DTensor that says it is bfloat16, and is float32.

Adam, which interpolates with it, fails. torch 2.9.0 on the CPU, with torch's fake process group.
"""

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_module, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
model = distribute_module(nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)), mesh)
rows = distribute_tensor(torch.ones(4, 3), mesh, [Shard(0)])
with torch.autocast("cpu", torch.bfloat16):
    output = model(rows)
output.float().sum().backward()
gradient = model[1].weight.grad
declared = gradient._spec.tensor_meta.dtype  # what DTensor's rules read
held = gradient.to_local().dtype
print(f"expected {held}, as the local tensor is, actual {declared}")
torch.optim.Adam(model.parameters()).step()
