"""`nll_loss`, `cross_entropy` and `embedding_bag` of an XLAShardedTensor give one without `global_tensor`.

What is computed from it has none either, so that its shards and its placement cannot be read.
torch_xla 2.9.0 on the CPU.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", XLA_THREAD_POOL_SIZE="8")
import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch.nn import functional

xr.use_spmd()
mesh = xs.Mesh(np.arange(2), (2,), ("dp",))
rows = xs.mark_sharding(torch.ones(4, 3).to(torch_xla.device()), mesh, ("dp", None))
targets = torch.zeros(4, dtype=torch.long).to(torch_xla.device())
loss = functional.nll_loss(rows, targets)
expected = functional.nll_loss(torch.ones(4, 3), torch.zeros(4, dtype=torch.long)).item()
actual = loss.global_tensor.item()
print(f"expected {expected}, actual {actual}")
