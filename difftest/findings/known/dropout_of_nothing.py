"""The mask of `native_dropout` is boolean, except for a tensor without elements: there it is float32.

So ranks that share rows unevenly disagree on the mask's dtype where one holds no row.
torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys

import torch

expected = torch.native_dropout(torch.ones(2, 5), 0.5, True)[1].dtype
actual = torch.native_dropout(torch.ones(0, 5), 0.5, True)[1].dtype
print(f"expected {expected}, actual {actual}")
sys.exit(0 if (expected, actual) == (torch.bool, torch.float32) else 1)
