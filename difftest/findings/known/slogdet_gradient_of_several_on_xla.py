"""The gradient of `slogdet` and `logdet` of batched matrices fails.

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
    """The gradient of the logarithms of several determinants."""
    matrices = torch.eye(2).repeat(3, 1, 1).to(device).requires_grad_()
    torch.linalg.slogdet(matrices).logabsdet.sum().backward()
    return matrices.grad


actual, expected = outcome(gradient_of_slogdet, XLA), outcome(gradient_of_slogdet, "cpu")
print(f"expected {expected}, actual {actual}")
