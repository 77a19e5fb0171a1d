"""An integer tensor shifted right by a tensor is 0.

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
    return str((torch.tensor([4]).to(at) >> torch.tensor([1]).to(at)).cpu())


actual, expected = outcome(call, XLA), outcome(call, "cpu")
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
