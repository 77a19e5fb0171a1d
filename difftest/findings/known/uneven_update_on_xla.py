"""A program whose only result is a tensor that is sharded unevenly gives it whole to every device.

A tensor of 9 rows over 2 devices is whole on each of them after an update in place; one of 6 rows stays
sharded. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")
import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()
mesh = xs.Mesh(np.arange(2), (2,), ("dp",))
shardings = {}
for rows in (6, 9):
    tensor = torch.ones(rows, 4).to(torch_xla.device())
    xs.mark_sharding(tensor, mesh, ("dp", None))
    torch_xla.sync()
    tensor.add_(1)
    torch_xla.sync()
    shardings[rows] = torch_xla._XLAC._get_xla_sharding_spec(tensor)
print("expected", shardings[6], "of 6 rows and of 9, actual", shardings[9], "of 9")
sys.exit(0 if shardings[9] == "{replicated}" != shardings[6] else 1)
