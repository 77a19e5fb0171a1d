"""`Tensor.numpy()` of a gradient of zeros that autograd never allocated, as that of `sgn`, is memory of other tensors.

torch 2.9.0. Exits 0 while the fault is there.
"""

import sys

import numpy as np
import torch

ROWS = 64


def gradient() -> torch.Tensor:
    inputs = torch.ones(ROWS, ROWS, requires_grad=True)
    torch.sgn(inputs).sum().backward()
    return inputs.grad


def filled() -> None:
    """Leaves memory of that size with other numbers, as any program does."""
    for _ in range(20):
        np.full((ROWS, ROWS), 7.0, np.float32)


try:
    filled()
    actual = gradient().numpy()
except RuntimeError as error:
    print(f"refused: {error}")
    sys.exit(1)
print(f"expected 0, as in {gradient().abs().max()}; actual {actual[0, :4]}")
sys.exit(not actual.any())
