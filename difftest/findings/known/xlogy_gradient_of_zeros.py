"""The gradient of `xlogy(0, y)` with respect to y is NaN at y = 0, although the result is 0 for every y. So is `xlog1py`'s.

torch 2.9.0, 2.15.0. Exits 0 while the fault is there.
"""

import sys

import torch

x = torch.zeros(2, dtype=torch.float64)
y = torch.tensor([0.0, 0.5], dtype=torch.float64, requires_grad=True)
result = torch.xlogy(x, y)
result.sum().backward()
print(f"results {result.tolist()}, expected gradients [0.0, 0.0], actual {y.grad.tolist()}")
sys.exit(not y.grad.isnan().any())
