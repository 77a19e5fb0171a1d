"""`norm` with `p=inf` or `p=-inf` is 1 whatever the numbers are, so that `normalize` does nothing.

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
    numbers = torch.tensor([[2.0, 4.0]], device=device)
    norms = numbers.norm(-torch.inf), numbers.norm(torch.inf)
    return torch.cat([torch.stack(norms), torch.nn.functional.normalize(numbers, p=torch.inf)[0]])


actual, expected = outcome(call, XLA), outcome(call, "cpu")
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
