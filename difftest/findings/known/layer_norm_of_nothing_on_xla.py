"""The result of `layer_norm` of an empty tensor requires no gradient.

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


def outcome(call: Callable[..., object], device: object) -> object:
    """The result."""
    return call(device)


def layer_norm_requires_gradient(device: object) -> bool:
    """Whether the layer norm of a tensor without elements requires a gradient."""
    weight = torch.ones(1, device=device).requires_grad_()
    return functional.layer_norm(torch.ones(0, 1, device=device), (1,), weight).requires_grad


actual, expected = outcome(layer_norm_requires_gradient, XLA), outcome(layer_norm_requires_gradient, "cpu")
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
