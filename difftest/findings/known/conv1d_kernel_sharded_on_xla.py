"""XLA SPMD doubles the result of a conv1d whose input and kernel are sharded over one mesh axis.

The fault needs a second mesh axis that replicates. Exits 0 when the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="4", XLA_THREAD_POOL_SIZE="16")
import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()
mesh = xs.Mesh(np.arange(4), (2, 2), ("dp", "tp"))
x, w = torch.ones(4, 8, 8), torch.ones(8, 8, 3)
expected = torch.nn.functional.conv1d(x, w, padding=1)
X, W = x.to("xla"), w.to("xla")
xs.mark_sharding(X, mesh, (None, None, "tp"))
xs.mark_sharding(W, mesh, (None, None, "tp"))
actual = torch.nn.functional.conv1d(X, W, padding=1)
torch_xla.sync(wait=True)
ratio = (actual.cpu() / expected).mean().item()
print(f"expected 1 x the unsharded result, actual {ratio:g} x")
sys.exit(0 if abs(ratio - 1) > 0.1 else 1)
