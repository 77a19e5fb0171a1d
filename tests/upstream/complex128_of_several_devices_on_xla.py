"""A sharded complex128 tensor that is read on the host has wrong numbers; complex64 is right.

torch_xla 2.9.0, SPMD on two virtual devices. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")
import torch
import torch_xla
from torch_xla import runtime
from torch_xla.distributed import spmd

runtime.use_spmd()
mesh = spmd.Mesh([0, 1], (2,), ("data",))
expected = torch.arange(8.0, dtype=torch.float64).view(4, 2)
numbers = expected.to(torch_xla.device())
spmd.mark_sharding(numbers, mesh, ("data", None))
actual = torch.view_as_real(torch.view_as_complex(numbers).cpu())
print(f"expected {expected.tolist()}, actual {actual.tolist()}")
sys.exit(1 if torch.equal(expected, actual) else 0)
