"""Torch's `checkpoint(use_reentrant=True)` fails on XLA, even without random state.

torch looks for the module `torch.xla`, which does not exist. torch_xla has a checkpoint function of its own,
which its documentation of FSDP names.
"""

import os

os.environ.update(PJRT_DEVICE="CPU")
import torch
import torch_xla
from torch.utils.checkpoint import checkpoint

inputs = torch.ones(2).to(torch_xla.device()).requires_grad_()
checkpoint(torch.sin, inputs, use_reentrant=True, preserve_rng_state=False).sum().backward()
print("expected a gradient, actual", inputs.grad)
