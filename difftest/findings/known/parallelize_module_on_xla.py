"""`parallelize_module` on an xla mesh fails because an attribute is missing (pytorch/xla#9472)."""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", XLA_THREAD_POOL_SIZE="16")
import torch
import torch_xla.runtime as xr
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

xr.use_spmd()
mesh = DeviceMesh("xla", list(range(2)), mesh_dim_names=("tp",))
model = torch.nn.Sequential(torch.nn.Linear(4, 4)).to("xla")
model = parallelize_module(model, mesh, {"0": ColwiseParallel()})
print("expected a result, actual", model(torch.ones(2, 4).to("xla")).sum().item())
