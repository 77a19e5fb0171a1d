"""The gradient of `slogdet` and `logdet` fails, as a saved tensor is missing.

torch_xla 2.9.0.
"""

import os
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()


def outcome(call: Callable[..., torch.Tensor], device: object) -> object:
    """The result's dtype, shape and values."""
    result = call(device)
    return (result.dtype, tuple(result.shape), result.cpu().tolist())


def gradient_of_slogdet(device: object) -> torch.Tensor:
    """The gradient of the logarithm of a determinant."""
    matrix = torch.eye(2).mul(2.0).to(device).requires_grad_()
    torch.linalg.slogdet(matrix).logabsdet.backward()
    return matrix.grad


actual, expected = outcome(gradient_of_slogdet, XLA), outcome(gradient_of_slogdet, "cpu")
print(f"expected {expected}, actual {actual}")
