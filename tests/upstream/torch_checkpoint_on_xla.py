"""`torch.utils.checkpoint` fails on XLA with its default of keeping the state of the random generators.

torch looks for the module `torch.xla`, which does not exist; torch_xla has a checkpoint function of its own,
which its documentation of FSDP names. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU")
import torch
import torch_xla
from torch.utils.checkpoint import checkpoint

inputs = torch.ones(2).to(torch_xla.device()).requires_grad_()
try:
    checkpoint(torch.sin, inputs, use_reentrant=False).sum().backward()
except AttributeError as error:
    print("expected a gradient, actual", error)
    sys.exit(0 if "'torch' has no attribute 'xla'" in str(error) else 1)
print("expected and actual: a gradient", inputs.grad)
sys.exit(1)
