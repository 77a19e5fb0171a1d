"""`torch.diagonal` on XLA ignores its dims: it takes the last two of a tensor of three.

`diagonal_copy`, `diagonal_scatter` and the gradient do the same. Exits 0 while the fault is there.
"""

import os
import sys

os.environ["PJRT_DEVICE"] = "CPU"
import torch
import torch_xla

cube = torch.arange(60.0).reshape(3, 4, 5)
expected = torch.diagonal(cube, 0, 0, 1)
actual = torch.diagonal(cube.to(torch_xla.device()), 0, 0, 1).cpu()
print(
    f"expected shape (5, 3) and {expected[0].tolist()}, actual {tuple(actual.shape)} and {actual[0].tolist()}"
)
sys.exit(0 if actual.shape == (3, 4) and torch.equal(actual, torch.diagonal(cube, 0, 1, 2)) else 1)
