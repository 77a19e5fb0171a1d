"""`addmm` with a `beta` or an `alpha` other than 1 runs on the host.

`torch.optim.Muon` calls it ten times for each matrix in every step. torch_xla 2.9.0. Exits 0 while the fault
is there.
"""

import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
from torch_xla.debug import metrics

square = torch.ones(2, 2, device=torch_xla.device())
torch.addmm(square, square, square)
torch.addmm(square, square, square, beta=2.0)
torch_xla.sync()
times = metrics.counter_value("aten::addmm") or 0
print(f"expected no operator on the host, actual addmm {times} times")
sys.exit(times == 0)
