"""DTensor: forward mode fails, in any function, as an operator that it begins with has no rule.

`aten.alias` in torch 2.9.0, `aten._has_same_storage_numel` in 2.15.0.
"""

import tempfile

import torch
from torch import distributed
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
inputs, direction = (distribute_tensor(torch.ones(2, 4), mesh, [Replicate()]) for _ in range(2))
_, derivative = torch.func.jvp(torch.square, (inputs,), (direction,))
print(f"expected and actual: {derivative.full_tensor().tolist()}")
