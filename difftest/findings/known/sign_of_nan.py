"""`sign` and `sgn` of NaN are 0; numpy's and JAX's `sign` are NaN.

torch 2.9.0. Exits 0 while the fault is there.
"""

import math
import sys

import torch

nan = torch.tensor(torch.nan)
expected, actual = (nan / nan.abs()).item(), [torch.sign(nan).item(), torch.sgn(nan).item()]
print(f"expected {[expected, expected]}, actual {actual}")
sys.exit(0 if math.isnan(expected) and actual == [0, 0] else 1)
