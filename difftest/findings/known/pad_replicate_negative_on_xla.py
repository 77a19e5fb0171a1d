"""Replicating `pad` with a negative and a positive size along one dim fails.

torch_xla 2.9.0.
"""

import os
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
    return functional.pad(torch.ones(1, 1, 2, 4, device=device), (-4, 5, 0, 0), "replicate")


actual, expected = outcome(call, XLA), outcome(call, "cpu")
print(f"expected {expected}, actual {actual}")
