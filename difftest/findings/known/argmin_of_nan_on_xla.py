"""`argmin` and `argmax` give the place of a number after a NaN on XLA's CPU; torch gives that of the NaN.

The program that torch_xla builds, by XLA's library, compares so: XLA computes what it is given.
torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU")
import torch
import torch_xla

numbers = torch.tensor([1.0, float("nan"), 2.0])
on_xla = numbers.to(torch_xla.device())
expected = numbers.argmin().item(), numbers.argmax().item()
actual = on_xla.argmin().item(), on_xla.argmax().item()
print(f"expected {expected}, actual {actual}")
sys.exit(0 if (expected, actual) == ((1, 1), (2, 2)) else 1)
