"""DTensor: the backward pass of `unbind` fails where a result is not used.

Plain zeros stand for the gradients that are not there. torch 2.15.0; 2.9.0 has no rule for `unbind`.
"""

import tempfile

import torch
from torch import distributed
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
x = distribute_tensor(torch.ones(2, 2), mesh, [Shard(1)]).requires_grad_()
torch.unbind(x)[1].sum().backward()
