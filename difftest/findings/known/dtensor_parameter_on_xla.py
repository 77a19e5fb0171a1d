"""A module whose parameter is a DTensor on an xla mesh fails in its first forward (pytorch/xla#8534)."""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", XLA_THREAD_POOL_SIZE="16")
import torch
import torch_xla.runtime as xr
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_tensor

xr.use_spmd()
mesh = DeviceMesh("xla", list(range(2)))
model = torch.nn.Linear(4, 4).to("xla")
model.weight = torch.nn.Parameter(distribute_tensor(model.weight.data, mesh, [Shard(0)]))
print("expected a result, actual", model(torch.ones(2, 4).to("xla")).sum().item())
