"""A device used (or a seed set) before `use_spmd()` leads to a segmentation fault (pytorch/xla#9735).

torch_xla 2.9.0 on CPU. `use_spmd()` warns that it replicates the existing tensors, and goes on. The next
tensor without a sharding crashes the process.

Fails by SIGSEGV
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")
import torch
import torch_xla
import torch_xla.runtime as xr

torch_xla.device()
xr.use_spmd()
x = torch.ones(3, 4).to("xla")
print(float(x.sum()))
