"""The derivatives of `det` and of `solve` that forward mode makes have wrong gradients.

Compared with those that two reverse passes make. torch 2.9.0, in float64. Exits 0 while the fault is there.
"""

import sys

import torch

inputs = torch.tensor([[2.0, 0.5], [0.25, 1.0]], dtype=torch.float64, requires_grad=True)
direction = torch.tensor([[1.0, 0.5], [-0.25, 0.0]], dtype=torch.float64)
right = torch.tensor([1.0, 2.0], dtype=torch.float64)


def solved(matrix: torch.Tensor) -> torch.Tensor:
    return torch.linalg.solve(matrix, right)


wrong = False
for function in (torch.linalg.det, solved):
    output = function(inputs)
    weights = torch.ones_like(output, requires_grad=True)
    (slope,) = torch.autograd.grad(output, inputs, weights, create_graph=True)
    (by_reverse_mode,) = torch.autograd.grad(slope, weights, direction, create_graph=True)
    _, by_forward_mode = torch.func.jvp(function, (inputs,), (direction,))
    (expected,) = torch.autograd.grad(by_reverse_mode.square().sum(), inputs)
    (actual,) = torch.autograd.grad(by_forward_mode.square().sum(), inputs)
    print(f"{function.__name__}: expected {expected.tolist()}, actual {actual.tolist()}")
    wrong |= not torch.allclose(expected, actual)
sys.exit(int(not wrong))
