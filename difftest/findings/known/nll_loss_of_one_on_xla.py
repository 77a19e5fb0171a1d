"""`nll_loss` of one row without a batch, and without a reduction, ends the process on XLA.

torch_xla 2.9.0.

Fails by SIGSEGV
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional

device = torch_xla.device()
functional.nll_loss(torch.zeros(3, device=device), torch.tensor(0, device=device), reduction="none")
