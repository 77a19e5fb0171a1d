"""`softshrink` and `threshold` turn NaN into a number.

That hides that training has diverged. They compare with a limit, and take the other branch where the
comparison is false, as it is for NaN. torch's own kernels keep NaN; those of gradients pass on the gradient
that comes in, which is NaN here. torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional

CALLS = {
    "softshrink": functional.softshrink,
    "threshold": lambda tensor: functional.threshold(tensor, 0.5, 5.0),
}
right = False
XLA = torch_xla.device()
for name in CALLS:
    given = [float("nan"), 0.6]
    actual = CALLS[name](torch.tensor(given, device=XLA)).cpu()  # XLA's backward pass goes first
    expected = CALLS[name](torch.tensor(given))
    print(f"{name}: expected {expected.tolist()}, actual {actual.tolist()}")
    right |= bool(actual.isnan()[0])
sys.exit(1 if right else 0)
