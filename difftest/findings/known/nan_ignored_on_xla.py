"""`max`, `clamp` and `cummax` ignore NaN on XLA's CPU; torch's documentation says that they propagate it.

`clamp` gives its lower limit, which hides that training has diverged. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU")
import torch
import torch_xla

numbers = torch.tensor([1.0, float("nan")])
on_xla = numbers.to(torch_xla.device())
expected = numbers.max().item(), numbers.clamp(0.5, 2.0).tolist()
actual = on_xla.max().item(), on_xla.clamp(0.5, 2.0).tolist()
print(f"expected {expected}, actual {actual}")
sys.exit(0 if actual == (1.0, [1.0, 0.5]) else 1)
