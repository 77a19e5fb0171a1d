"""XLA's SPMD partitioner aborts in the gradient of gather over rows that are sharded unevenly.

XLA prints which check failed.

Fails by SIGABRT
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", XLA_THREAD_POOL_SIZE="16")
import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()
mesh = xs.Mesh(np.arange(2), (2,), ("dp",))
x, index = torch.ones(3, 4).to("xla").requires_grad_(), torch.zeros(3, 1, dtype=torch.int64).to("xla")
xs.mark_sharding(x, mesh, ("dp", None))
xs.mark_sharding(index, mesh, ("dp", None))
x.gather(-1, index).sum().backward()
torch_xla.sync(wait=True)
print(x.grad.cpu())
