"""`count_nonzero` along dims announces a tensor whose shape is the list of the dims.

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
    return tuple(torch.count_nonzero(torch.ones(2).to(at), (0,)).shape)


actual, expected = outcome(call, XLA), outcome(call, "cpu")
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
