"""`select` of a replicated DTensor changes what its argument is taken for: the second one has a wrong shape.

The rule returns the argument's specification as the result's, and the result's shape is written into it.
Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, distribute_tensor

distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
tensor = distribute_tensor(torch.ones(5, 3, 2), init_device_mesh("cpu", (1,)), [Replicate()])
shapes = [tuple(tensor.select(-1, 0).shape) for _ in range(2)]
distributed.destroy_process_group()
print(f"expected [(5, 3), (5, 3)], actual {shapes}")
sys.exit(0 if shapes == [(5, 3), (5,)] else 1)
