"""`avg_pool2d` ignores `divisor_override` with `count_include_pad=False`.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional

XLA = torch_xla.device()


def outcome(call: Callable[..., torch.Tensor], device: object) -> object:
    """The result's dtype, shape and values."""
    result = call(device)
    return (result.dtype, tuple(result.shape), result.cpu().tolist())


def call(device):
    return functional.avg_pool2d(
        torch.ones(1, 1, 3, 3, device=device), 3, 1, 1, count_include_pad=False, divisor_override=2
    )


actual, expected = outcome(call, XLA), outcome(call, "cpu")
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
