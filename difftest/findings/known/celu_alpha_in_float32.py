"""The gradient of `celu` has `1 / alpha` in float32, whatever the dtype of the inputs.

torch 2.9.0. Exits 0 while the fault is there.
"""

import math
import sys

import torch
from torch.nn import functional

ALPHA = 0.8

inputs = torch.full((1,), -0.5, dtype=torch.float64, requires_grad=True)
functional.celu(inputs, ALPHA).backward()
expected, actual = math.exp(-0.5 / ALPHA), inputs.grad.item()
print(f"expected {expected:.16g}, actual {actual:.16g}")
sys.exit(math.isclose(actual, expected, rel_tol=1e-14))
