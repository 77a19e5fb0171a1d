"""`local_map` of an XLAShardedTensor fails: it counts as a DTensor, and has no `_local_tensor`.

torch_xla 2.9.0 on the CPU. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")
import torch
import torch_xla.runtime as xr
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.experimental import local_map

xr.use_spmd()
mesh = init_device_mesh("xla", (2,))
rows = distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)])
try:
    doubled = local_map(lambda piece: piece * 2, [Shard(0)], ([Shard(0)],), device_mesh=mesh)(rows)
    print(f"expected (4, 2), actual {tuple(doubled.shape)}")
except AttributeError as error:
    print(f"expected (4, 2), actual {error}")
    sys.exit(0)
sys.exit(1)
