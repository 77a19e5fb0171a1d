"""`nll_loss` of one row without a batch, and without a reduction, ends the process on XLA.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import subprocess
import sys

if sys.argv[1:] != ["crash"]:
    died = subprocess.run([sys.executable, __file__, "crash"], capture_output=True, check=False)
    print(f"expected exit status 0, actual {died.returncode}")
    sys.exit(0 if died.returncode < 0 else 1)

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional

XLA = torch_xla.device()
functional.nll_loss(torch.zeros(3, device=XLA), torch.tensor(0, device=XLA), reduction="none")
