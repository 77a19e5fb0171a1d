"""Inductor: the gradient of `slice_scatter` is zero if its result is summed along the same dim.

torch 2.9.0, silent: the forward is right.
"""

import sys

import torch
from torch import Tensor


def written(x: Tensor, y: Tensor) -> Tensor:
    return torch.slice_scatter(x, y, dim=1, start=0, end=2).sum(dim=1)


def gradient(function) -> Tensor:  # noqa: ANN001
    torch.manual_seed(0)
    x, y = torch.randn(2, 5, 3, requires_grad=True), torch.randn(2, 2, 3)
    function(x, y).square().sum().backward()
    return x.grad[0, :, 0]


expected, actual = gradient(written), gradient(torch.compile(written))
print(f"expected {expected.tolist()}, actual {actual.tolist()}")
sys.exit(int(torch.allclose(expected, actual)))
