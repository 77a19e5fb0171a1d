"""A residual connection adds a linear layer's result to the wrong rows of its unevenly sharded input.

torch_xla 2.9.0. One mesh axis shards the first of three dims, a row a device, and another one the second dim,
unevenly. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="4", XLA_THREAD_POOL_SIZE="16")
import numpy as np
import torch
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()
mesh = xs.Mesh(np.arange(4), (2, 2), ("dp", "tp"))
rows, weight = torch.arange(12.0).reshape(2, 3, 2), 10 * torch.eye(2)


def residual(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x + torch.nn.functional.linear(x, w)


expected = residual(rows, weight).tolist()
x = xs.mark_sharding(rows.to("xla"), mesh, ("dp", "tp", None)).global_tensor
actual = residual(x, weight.to("xla")).cpu().tolist()
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
