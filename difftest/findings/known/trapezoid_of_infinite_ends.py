"""`trapezoid` is NaN where the first or the last value is infinite; by its documented formula it is infinite.

torch 2.9.0. Exits 0 while the fault is there.
"""

import math
import sys

import torch

y = torch.tensor([0.0, 1.0, torch.inf])
expected, actual = ((y[1:] + y[:-1]) / 2).sum().item(), torch.trapezoid(y).item()
print(f"expected {expected}, actual {actual}")
sys.exit(0 if expected == math.inf and math.isnan(actual) else 1)
