"""DTensor: the backward pass of `associative_scan` fails, as the gradient of a stack has another shape.

torch 2.9.0; 2.15.0 is right.
"""

import tempfile

import torch
from torch import distributed
from torch._higher_order_ops import associative_scan
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
rows = distribute_tensor(torch.ones(4, 2), mesh, [Replicate()]).requires_grad_()
sums = associative_scan(torch.add, rows, dim=0, combine_mode="generic")
sums.sum().backward()
print(f"expected [4.0, 3.0, 2.0, 1.0], actual {rows.grad.full_tensor()[:, 0].tolist()}")
