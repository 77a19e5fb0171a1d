"""What an operator gives of a tensor that `distribute_tensor` shards on XLA has no `placements`.

DTensors have them. torch_xla 2.9.0 on the CPU with two virtual devices.
"""

import os

os.environ |= {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "2"}
import torch
import torch_xla.runtime as xr
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

xr.use_spmd()
rows = distribute_tensor(torch.arange(4.0), init_device_mesh("xla", (2,)), [Shard(0)])
actual = str((rows * 2).placements)
print(f"expected {rows.placements}, actual {actual}")
