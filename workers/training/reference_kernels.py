"""Kernels of the reference, in place of torch's own on the CPU where these are wrong in float64.

They hold in a process that computes the reference alone: the backends keep torch's kernels, so that a fault
of one shows on them.
"""

import warnings
from functools import cache

import torch

_EDGE = 3.0
"""Where `hardsigmoid` becomes constant."""


@cache
def replaced() -> torch.library.Library:
    """Replaces the kernels for the rest of this process; the library must be kept for that."""
    library = torch.library.Library("aten", "IMPL", "CPU")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a kernel is replaced, which is what this is for
        library.impl("hardsigmoid_backward", _hardsigmoid_backward)
    return library


def _hardsigmoid_backward(grad_output: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """A sixth of `grad_output` where `tensor` is between -3 and 3, else 0.

    torch's own multiplies by 1/6 in float32 for every dtype (`known/hardsigmoid_in_float64.py`).
    """
    return torch.where(tensor.abs() < _EDGE, grad_output / 6, 0)
