"""`roll` of a tensor without elements ends the process on XLA: a division by its size, which is 0.

torch_xla 2.9.0.

Fails by SIGFPE
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

print(torch.ones(0, device=torch_xla.device()).roll(1).cpu())
