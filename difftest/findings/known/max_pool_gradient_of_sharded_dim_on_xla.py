"""SPMD: the gradient of max pooling is wrong where windows overlap along a sharded dim.

The pooling itself is right. torch_xla 2.9.0 on the CPU. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", XLA_THREAD_POOL_SIZE="8")
import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch.nn.functional import max_pool2d

xr.use_spmd()
mesh = xs.Mesh(np.arange(2), (2,), ("x",))
images = torch.tensor([[[[3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]]]])
whole, sharded = images.clone().requires_grad_(), images.to(torch_xla.device()).requires_grad_()
xs.mark_sharding(sharded, mesh, (None, None, None, "x"))
for each in (whole, sharded):
    max_pool2d(each, (1, 2), stride=1).sum().backward()
expected, actual = whole.grad.flatten().tolist(), sharded.grad.cpu().flatten().tolist()
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
