"""`roll` of a tensor without elements ends the process on XLA: a division by its size, which is 0.

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

torch.ones(0, device=torch_xla.device()).roll(1).cpu()
