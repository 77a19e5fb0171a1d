"""`SequentialLR`: with a learning rate that is a tensor, the second scheduler begins with the rate of the first.

`lr` and `initial_lr` become one tensor, which the schedulers change. torch 2.9.0, on any device. Exits 0 while the fault is there.
"""

import sys

import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR


def rates(first: float | torch.Tensor) -> list[float]:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=first)
    schedulers = [LinearLR(optimizer, 0.5, 1.0, 2), CosineAnnealingLR(optimizer, 4)]
    scheduler, used = SequentialLR(optimizer, schedulers, [2]), []
    for _ in range(4):
        used.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        scheduler.step()
    return used


expected, actual = rates(0.125), rates(torch.tensor(0.125, dtype=torch.float64))
print(f"expected {expected}, actual {actual}")
sys.exit(expected == actual)
