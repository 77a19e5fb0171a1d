"""Torch's `checkpoint` fails on XLA: it looks for a module `torch.xla`.

torch looks for the module `torch.xla`, which does not exist, to keep the state of the random generators, as it
does by default. torch_xla has a checkpoint function of its own, which its documentation of FSDP names.
"""

import os

os.environ.update(PJRT_DEVICE="CPU")
import torch
import torch_xla
from torch.utils.checkpoint import checkpoint

inputs = torch.ones(2).to(torch_xla.device()).requires_grad_()
checkpoint(torch.sin, inputs, use_reentrant=False).sum().backward()
print("expected a gradient, actual", inputs.grad)
