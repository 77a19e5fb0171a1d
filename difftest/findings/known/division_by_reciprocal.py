"""Zero divided by a subnormal tensor is NaN, and a subnormal number divided by it infinite.

`number / tensor` is the tensor's reciprocal, which overflows, times the number. `tensor / tensor` is right.

torch 2.9.0. Exits 0 while the fault is there.
"""

import math
import sys

import torch

x = torch.tensor(1e-310, dtype=torch.float64)
expected, actual = (torch.zeros_like(x) / x).item(), (0.0 / x).item()
print(f"expected {expected}, actual {actual}")
sys.exit(0 if expected == 0 and math.isnan(actual) else 1)
