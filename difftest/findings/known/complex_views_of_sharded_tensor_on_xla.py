"""`view_as_complex` and `view_as_real` of an XLAShardedTensor fail; those of the tensor that it wraps work.

torch_xla 2.9.0 on the CPU.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", XLA_THREAD_POOL_SIZE="8")
import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()
mesh = xs.Mesh(np.arange(2), (2,), ("dp",))
pairs = torch.ones(4, 3, 2).to(torch_xla.device())
expected = tuple(torch.view_as_complex(pairs).shape)
sharded = xs.mark_sharding(pairs, mesh, ("dp", None, None))
actual = tuple(torch.view_as_complex(sharded).shape)
print(f"expected {expected}, actual {actual}")
