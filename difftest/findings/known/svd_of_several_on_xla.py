"""Singular values of batched matrices have the shape of one matrix's.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()


def outcome(call: Callable[..., torch.Tensor], device: object) -> object:
    """The result's dtype, shape and values."""
    result = call(device)
    return (result.dtype, tuple(result.shape), result.cpu().tolist())


def call(device):
    return torch.linalg.svdvals(torch.eye(2).repeat(3, 1, 1).to(device))


actual, expected = outcome(call, XLA), outcome(call, "cpu")
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
