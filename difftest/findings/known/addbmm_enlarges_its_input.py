"""`addbmm_` broadcasts the tensor that it updates in place, and enlarges it; `addmm_` rejects that.

torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys

import torch

row = torch.ones(6)
try:
    actual = str(tuple(row.addbmm_(torch.ones(2, 4, 4), torch.ones(2, 4, 6)).shape))
except RuntimeError as error:
    actual = str(error).splitlines()[0]
print(f"expected an error, actual {actual}, and the row has the shape {tuple(row.shape)}")
sys.exit(0 if tuple(row.shape) == (4, 6) else 1)
