"""`remainder` by an infinity of the same sign is NaN instead of the dividend.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA, INF = torch_xla.device(), torch.inf


def outcome(call: Callable[..., object], device: object) -> object:
    """The result."""
    return call(device)


def call(at):
    return str((torch.tensor([1.0, -1.0]).to(at) % INF).cpu())


actual, expected = outcome(call, XLA), outcome(call, "cpu")
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
