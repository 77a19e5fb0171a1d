"""Losses near 0 that XLA computes as the logarithm of a number near 1, which is rounded first; names select.

torch takes `log1p`. `logsigmoid(10)` has a relative error of 4e-4, and `logsigmoid(20)` is 0.
That of minus infinity is NaN.
torch_xla 2.9.0. Exits 0 when the faults are there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional

XLA = torch_xla.device()
FAULTS = {
    "binary_cross_entropy": lambda at: functional.binary_cross_entropy(
        torch.tensor([1e-9, 1e-4]).to(at), torch.zeros(2).to(at), reduction="none"
    ),
    "logsigmoid": lambda at: functional.logsigmoid(torch.tensor([20.0, 10.0, -torch.inf]).to(at)),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    expected, actual = (FAULTS[name](device).tolist() for device in ("cpu", XLA))
    print(f"{name}: expected {expected}, actual {actual}")
    missing += [] if actual[0] == 0 and abs(actual[1] / expected[1] - 1) > 5e-5 else [name]
sys.exit(f"not there: {missing}" if missing else 0)
