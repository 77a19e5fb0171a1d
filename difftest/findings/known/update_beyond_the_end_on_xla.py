"""SPMD: an update of a sharded dim whose start is too large is lost.

torch_xla 2.9.0, silent: the start must become the last that fits.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", XLA_THREAD_POOL_SIZE="16")
import torch
import torch_xla
from jax import lax
from torch_xla.core import xla_builder
from torch_xla.distributed import spmd

torch_xla.runtime.use_spmd()
MESH, DEVICE = spmd.Mesh([0, 1], (2,), ("x",)), torch_xla.device()
x, start = torch.zeros(4), torch.tensor(4, dtype=torch.int32, device=DEVICE)
sharded = x.to(DEVICE)
spmd.mark_sharding(sharded, MESH, ("x",))
one = torch.ones(1, device=DEVICE)
written = xla_builder.call_jax(lambda x, y, at: lax.dynamic_update_slice(x, y, (at,)), (sharded, one, start))
spmd.mark_sharding(written, MESH, ("x",))
expected, actual = [0.0, 0.0, 0.0, 1.0], written.cpu().tolist()
print(f"expected {expected}, actual {actual}")
sys.exit(int(expected == actual))
