"""The gradient of `poisson_nll_loss` with `full` with respect to a target of 0 is NaN.

Stirling's approximation, which is documented for targets above 1, is left out of the loss of a target of 0, and
not of its gradient. Without it the gradient is minus the input.

torch 2.9.0. Exits 0 while the fault is there.
"""

import math
import sys

import torch
from torch.nn.functional import poisson_nll_loss

rate, target = torch.tensor(0.5), torch.tensor(0.0, requires_grad=True)
expected = -rate.item()
actual = torch.autograd.grad(poisson_nll_loss(rate, target, full=True), target)[0].item()
print(f"expected {expected}, actual {actual}")
sys.exit(0 if math.isnan(actual) else 1)
