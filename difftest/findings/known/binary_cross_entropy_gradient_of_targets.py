"""The gradient of `binary_cross_entropy` with respect to a target is infinite where the probability is 0 or 1.

Its logarithms are documented to be at least -100, and the loss itself changes by 100 from one target to the other.

torch 2.9.0. Exits 0 while the fault is there.
"""

import sys

import torch
from torch.nn.functional import binary_cross_entropy

probability = torch.ones(1)
target = torch.ones(1, requires_grad=True)
expected = (binary_cross_entropy(probability, target) - binary_cross_entropy(probability, target - 1)).item()
actual = torch.autograd.grad(binary_cross_entropy(probability, target), target)[0].item()
print(f"expected {expected}, actual {actual}")
sys.exit(0 if expected == -100 and actual == -torch.inf else 1)
