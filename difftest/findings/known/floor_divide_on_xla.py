"""`floor_divide` rounds before it takes the floor: 1.0 // 0.1 is 10.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()


def outcome(call: Callable[[object], object], device: object) -> object:
    """The result."""
    return call(device)


def call(at):
    return (torch.tensor([1.0]).to(at) // torch.tensor([0.1]).to(at)).tolist()


actual, expected = outcome(call, XLA), outcome(call, "cpu")
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
