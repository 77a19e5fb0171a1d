"""The gradient of `hardsigmoid` is 1/6 in float32 also for float64 tensors, which lose half of their digits.

The kernels for the CPU and for CUDA name the constant `1.0f / 6.0f` for every dtype. torch 2.9.0 and 2.15.0,
on the CPU. Exits 0 when the fault is there.
"""

import sys

import torch

given = torch.zeros(1, dtype=torch.float64, requires_grad=True)
torch.nn.functional.hardsigmoid(given).backward()
expected, actual = 1 / 6, given.grad.item()
print(f"expected {expected}, actual {actual}")
sys.exit(0 if abs(actual - expected) > 1e-12 else 1)
