"""`var_mean` and `std_mean` give NaN as the mean of numbers that hold an infinity; `mean` gives the infinity.

torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import math
import sys

import torch

numbers = torch.tensor([-torch.inf, 2.0, 3.0, 4.0])
expected, actual = numbers.mean().item(), torch.var_mean(numbers, 0)[1].item()
print(f"expected {expected}, actual {actual}")
sys.exit(0 if expected == -torch.inf and math.isnan(actual) else 1)
