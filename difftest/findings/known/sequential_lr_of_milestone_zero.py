"""`SequentialLR`: with a milestone at 0 the first step has the rate of the first scheduler.

The second one, whose milestone it is, begins there. torch 2.9.0, on any device. Exits 0 while the fault is there.
"""

import sys

import torch
from torch.optim.lr_scheduler import ConstantLR, SequentialLR

weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], lr=1.0)
schedulers = [ConstantLR(optimizer, 0.125, 4), ConstantLR(optimizer, 0.5, 4)]
SequentialLR(optimizer, schedulers, milestones=[0])

expected, actual = 0.5, optimizer.param_groups[0]["lr"]
print(f"expected a rate of {expected}, actual {actual}")
sys.exit(expected == actual)
