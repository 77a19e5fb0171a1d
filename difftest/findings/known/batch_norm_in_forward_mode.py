"""Batch norm: the derivative that forward mode makes has a wrong gradient.

The derivative itself is right. Compared with the one that two reverse passes make.
torch 2.9.0, in float64; 2.15.0 raises. Exits 0 while the fault is there.
"""

import sys

import torch
from torch.nn import functional


def normalized(inputs: torch.Tensor) -> torch.Tensor:
    return functional.batch_norm(inputs.T, None, None, training=True)


inputs = torch.tensor([[0.5, -1.0, 2.0, 0.25]], dtype=torch.float64, requires_grad=True)
direction = torch.tensor([[1.0, 0.5, -0.25, 0.0]], dtype=torch.float64)

output = normalized(inputs)
weights = torch.ones_like(output, requires_grad=True)
(slope,) = torch.autograd.grad(output, inputs, weights, create_graph=True)
(by_reverse_mode,) = torch.autograd.grad(slope, weights, direction, create_graph=True)
_, by_forward_mode = torch.func.jvp(normalized, (inputs,), (direction,))

(expected,) = torch.autograd.grad(by_reverse_mode.flatten()[0], inputs)
(actual,) = torch.autograd.grad(by_forward_mode.flatten()[0], inputs)
print(f"derivative: expected {by_reverse_mode.tolist()}, actual {by_forward_mode.tolist()}")
print(f"its gradient: expected {expected.tolist()}, actual {actual.tolist()}")
sys.exit(int(torch.allclose(expected, actual)))
