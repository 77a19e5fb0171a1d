"""torch_xla's `_shard_map` returns too many rows when the devices do not share them equally.

torch_xla 2.9.0 on CPU: the shape of the output is computed as that of the padded part, times the number of
devices. Flash attention therefore fails on such a batch. Exits 0 when the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")
import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.experimental.custom_kernel import _shard_map

xr.use_spmd()
mesh = xs.Mesh(np.arange(2), (2, 1), ("dp", "tp"))
rows = torch.arange(6.0).reshape(3, 2).to(torch_xla.device())
spec = "dp", None
doubled = _shard_map(lambda part: part + part, mesh, (spec,), (spec,))(rows)
print(f"expected 3 rows, actual {doubled.shape[0]}")
sys.exit(doubled.shape[0] == 3)
