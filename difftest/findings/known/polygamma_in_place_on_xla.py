"""`polygamma_` fails: it is taken for a custom operator whose output has alias annotations.

torch_xla 2.9.0.
"""

import os
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()


def outcome(call: Callable[..., object], device: object) -> object:
    """The result."""
    return call(device)


def call(at):
    return str(torch.ones(2, device=at).polygamma_(1).cpu())


actual, expected = outcome(call, XLA), outcome(call, "cpu")
print(f"expected {expected}, actual {actual}")
