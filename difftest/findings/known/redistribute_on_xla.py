"""`redistribute`, `full_tensor` and `to_local` fail for a DTensor on an xla mesh (pytorch/xla#9472).

Exits 0 when all three fail.
"""

import os
import sys
from functools import partial

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", XLA_THREAD_POOL_SIZE="16")
import torch
import torch_xla.runtime as xr
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

xr.use_spmd()
mesh = DeviceMesh("xla", list(range(2)), mesh_dim_names=("dp",))
tensor = distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)])
conversions = {
    "redistribute": partial(tensor.redistribute, mesh, [Replicate()]),
    "full_tensor": tensor.full_tensor,
    "to_local": tensor.to_local,
}
failed = 0
for name, convert in conversions.items():
    try:
        print(name, "expected and actual: a tensor of shape", tuple(convert().shape))
    except (AttributeError, TypeError) as error:
        failed += 1
        print(name, "expected a tensor, actual", type(error).__name__, error)
sys.exit(0 if failed == len(conversions) else 1)
