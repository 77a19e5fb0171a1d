"""The gradient of batch norm in evaluation mode fails.

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


def gradient_of_batch_norm(device: object) -> torch.Tensor:
    """The gradient of a batch norm that does not train, as where a model is fine-tuned with frozen norms."""
    tensor = torch.ones(3, 2, device=device).requires_grad_()
    mean, variance, weight = (torch.ones(2, device=device) for _ in range(3))
    functional.batch_norm(tensor, mean, variance, weight, training=False).sum().backward()
    return tensor.grad


actual, expected = outcome(gradient_of_batch_norm, XLA), outcome(gradient_of_batch_norm, "cpu")
print(f"expected {expected}, actual {actual}")
