"""The gradient of `clamp` is lost below a `min` that equals `max`: neither bound has it, though the result is both.

torch 2.9.0. Exits 0 while the fault is there.
"""

import sys

import torch

bound = torch.zeros(2, requires_grad=True)
torch.clamp(torch.tensor([-1.0, 1.0]), bound, bound).sum().backward()
print(f"expected {[1.0, 1.0]}, actual {bound.grad.tolist()}")
sys.exit(bound.grad.tolist() == [1.0, 1.0])
