"""Muon: without Nesterov, parameters in bfloat16 have their momentum divided by its norm in every step.

What is divided in place is `grad.bfloat16()`, which is the momentum itself. Exits 0 while the fault is there.
"""

import sys

import torch
from torch import nn

gradient = torch.full((4, 4), 3.0, dtype=torch.bfloat16)
weight = nn.Parameter(torch.zeros(4, 4, dtype=torch.bfloat16))
weight.grad = gradient.clone()
optimizer = torch.optim.Muon([weight], momentum=0.5, nesterov=False)
optimizer.step()
expected, actual = gradient[0, 0].item() / 2, optimizer.state[weight]["momentum_buffer"][0, 0].item()
print(f"expected a momentum of {expected}, actual {actual}")
sys.exit(actual == expected)
