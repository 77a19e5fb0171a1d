"""`redistribute` of what `distribute_tensor` gives on XLA fails: it asks the DeviceMesh for a `mesh_shape`.

torch_xla 2.9.0 on the CPU with two virtual devices.
"""

import os

os.environ |= {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "2"}
import torch
import torch_xla.runtime as xr
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

xr.use_spmd()
mesh = init_device_mesh("xla", (2,))
rows = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])
print("expected [0.0, 1.0, 2.0, 3.0], actual", rows.redistribute(mesh, [Replicate()]).cpu().tolist())
