"""SPMD: a dynamic slice whose start is too large is taken at another place in each piece of a sharded dim.

torch_xla 2.9.0, silent: the start must become the last that fits, of the whole dim.
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
x, start = torch.arange(8.0), torch.tensor(5, dtype=torch.int32, device=DEVICE)
sharded = x.to(DEVICE)
spmd.mark_sharding(sharded, MESH, ("x",))
cut = xla_builder.call_jax(lambda x, start: lax.dynamic_slice(x, (start,), (6,)), (sharded, start))
spmd.mark_sharding(cut, MESH, ("x",))
expected, actual = x[2:].tolist(), cut.cpu().tolist()
print(f"expected {expected}, actual {actual}")
sys.exit(int(expected == actual))
