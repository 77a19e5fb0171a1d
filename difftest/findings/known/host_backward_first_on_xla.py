"""A backward pass on the host before the runtime starts breaks every backward pass on SPMD's device after it.

Autograd counts its devices at its first backward pass, when torch_xla has none yet. A program that checks a
loss on the host first, or computes its data with gradients, cannot train.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")
import torch
import torch_xla
import torch_xla.runtime as xr

torch.ones(2, requires_grad=True).sum().backward()
xr.use_spmd()
weight = torch.ones(2).to(torch_xla.device()).requires_grad_()
weight.sum().backward()
print("expected and actual: a gradient")
