"""`lerp` from 1 to infinity is NaN for weights of at least 0.5; by its documented formula it is infinity.

torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import math
import sys

import torch

start, end = torch.tensor(1.0), torch.tensor(torch.inf)
expected, actual = (start + 0.75 * (end - start)).item(), torch.lerp(start, end, 0.75).item()
print(f"expected {expected}, actual {actual}")
sys.exit(0 if expected == torch.inf and math.isnan(actual) else 1)
