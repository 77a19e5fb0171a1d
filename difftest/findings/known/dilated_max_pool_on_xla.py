"""The gradient of dilated max pooling fails.

torch_xla 2.9.0.
"""

import os
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn.functional import max_pool2d

XLA = torch_xla.device()


def outcome(call: Callable[[object], object], device: object) -> object:
    """The result."""
    return call(device)


def gradient_of_max_pool(device: object) -> list[list[list[float]]]:
    """The gradient of the maximum of every second number."""
    numbers = torch.arange(6.0, device=device).view(1, 1, 6).requires_grad_()
    max_pool2d(numbers, (1, 3), stride=2, dilation=(1, 2)).sum().backward()
    return numbers.grad.tolist()


actual, expected = outcome(gradient_of_max_pool, XLA), outcome(gradient_of_max_pool, "cpu")
print(f"expected {expected}, actual {actual}")
