"""Tensor parallelism: forward mode fails, as the functions that make DTensors of local tensors have no `jvp`.

torch 2.9.0 and 2.15.0 over gloo.
"""

import tempfile

import torch
from torch import distributed, nn
from torch.autograd import forward_ad
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
model = parallelize_module(nn.Linear(4, 4), init_device_mesh("cpu", (1,)), ColwiseParallel())
with forward_ad.dual_level():
    dual = model(forward_ad.make_dual(torch.ones(2, 4), torch.ones(2, 4)))
    print(forward_ad.unpack_dual(dual).tangent)
