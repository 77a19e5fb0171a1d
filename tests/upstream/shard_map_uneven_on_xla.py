"""Rows that the devices do not share equally come out of torch_xla's `_shard_map` as more rows, so flash attention fails on such a batch.

torch_xla 2.9.0 on CPU: the output's shape is taken as the padded part's times the devices. Exits 0 when the fault is there.
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
spec = ("dp", None)
doubled = _shard_map(lambda part: part + part, mesh, (spec,), (spec,))(rows)
print(f"expected 3 rows, actual {doubled.shape[0]}")
sys.exit(doubled.shape[0] == 3)
