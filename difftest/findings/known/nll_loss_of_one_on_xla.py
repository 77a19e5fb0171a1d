"""`nll_loss` of one row without a batch, and without a reduction, ends the process on XLA.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import multiprocessing
import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional


def crash() -> None:
    device = torch_xla.device()
    functional.nll_loss(torch.zeros(3, device=device), torch.tensor(0, device=device), reduction="none")


process = multiprocessing.get_context("fork").Process(target=crash)
process.start()
process.join()
print(f"expected exit status 0, actual {process.exitcode}")
sys.exit(0 if process.exitcode < 0 else 1)
