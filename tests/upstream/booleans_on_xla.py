"""Functions of booleans that fail on XLA, and `asin`, which gives booleans; names select.

Torch computes them in float32, as those of integers, which torch_xla computes too.
torch_xla 2.9.0. Exits 0 when the faults are there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

FAIL = (
    *("acos", "acosh", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "expm1", "isnan", "reciprocal"),
    *("rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh"),
)
FAULTS = {"asin": ("asin",), "functions": FAIL}


def outcome(function: str, device: object) -> str:
    """The result, or the error."""
    try:
        return str(getattr(torch, function)(torch.tensor([False, True]).to(device)).cpu())
    except RuntimeError as error:
        return str(error).splitlines()[0]


missing = []
for name in sys.argv[1:] or FAULTS:
    for function in FAULTS[name]:
        expected, actual = outcome(function, "cpu"), outcome(function, torch_xla.device())
        print(f"{function}: expected {expected}, actual {actual}")
        missing += [function] if actual == expected else []
sys.exit(f"not there: {missing}" if missing else 0)
