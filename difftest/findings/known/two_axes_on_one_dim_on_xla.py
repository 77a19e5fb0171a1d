"""`distribute_tensor` on an xla mesh applies only the last of two placements that shard the same dim.

torch_xla 2.9.0 on CPU, a mesh of 2 x 2: the parameter has two pieces instead of the requested four, so every
device holds twice as much. Exits 0 when the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="4")
import torch
import torch_xla
import torch_xla.runtime as xr
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch_xla.distributed.spmd import XLAShardedTensor

xr.use_spmd()
mesh = init_device_mesh("xla", (2, 2), mesh_dim_names=("dp", "tp"))
weight = torch.zeros(8, 8).to(torch_xla.device())
distribute_tensor(weight, mesh, [Shard(0), Shard(0)])
held = {tuple(shard.data.shape) for shard in XLAShardedTensor(weight).local_shards}
spec = torch_xla._XLAC._get_xla_sharding_spec(weight)
print(spec)
print(f"the shards that devices hold: expected [(2, 8)], actual {sorted(held)}")
sys.exit(held == {(2, 8)})
