"""`sigmoid`, `tan`, `exp`, `sqrt`, `isnan` and 14 other functions of a boolean tensor fail.

Torch computes them in float32, as those of integers, which torch_xla computes too. torch_xla 2.9.0.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

FAIL = (
    *("acos", "acosh", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "expm1", "isnan", "reciprocal"),
    *("rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh"),
)


def outcome(function: str, device: object) -> str:
    """The result."""
    return str(getattr(torch, function)(torch.tensor([False, True]).to(device)).cpu())


for function in FAIL:
    expected, actual = outcome(function, "cpu"), outcome(function, torch_xla.device())
    print(f"{function}: expected {expected}, actual {actual}")
