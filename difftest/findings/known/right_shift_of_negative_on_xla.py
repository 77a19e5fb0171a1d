"""Negative integers shifted right round towards zero, where torch rounds down.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()


def outcome(call: Callable[..., object], device: object) -> object:
    """The result."""
    return call(device)


def call(at):
    return str((torch.tensor([-3]).to(at) >> 1).cpu())


actual, expected = outcome(call, XLA), outcome(call, "cpu")
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
