"""The gradient of dropout hides infinity and NaN at dropped elements.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA, INF = torch_xla.device(), torch.inf
DROPPED, ONE = torch.ops.aten.native_dropout_backward, torch.ones(1)


def outcome(call: Callable[..., object], device: object) -> object:
    """The result."""
    return call(device)


def call(at):
    return str(DROPPED(INF * ONE.to(at), ONE.to(at) < 0, 2.0).cpu())


actual, expected = outcome(call, XLA), outcome(call, "cpu")
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
