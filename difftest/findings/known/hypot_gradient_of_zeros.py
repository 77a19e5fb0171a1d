"""The gradient of `hypot` of two zeros is NaN. That of a norm of zeros, which is the same, is 0.

torch 2.9.0, 2.15.0. Exits 0 while the fault is there.
"""

import sys

import torch

x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
y = torch.zeros(1, dtype=torch.float64)
expected = torch.autograd.grad(torch.stack([x, y]).norm(), x)[0].item()
actual = torch.autograd.grad(torch.hypot(x, y), x)[0].item()
print(f"expected {expected}, actual {actual}")
sys.exit(expected == actual)
