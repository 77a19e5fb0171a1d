"""A weight that a stage uses twice gets a part of its gradient twice in zero-bubble schedules.

torch 2.9.0. `stage_backward_weight` starts at both uses, and what starts at the later flows through the earlier too.
Exits 0 while the fault is there.
"""

import sys

import torch
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

x, weight = torch.ones(1, requires_grad=True), torch.nn.Parameter(torch.ones(1))
y = x * weight * weight
_, groups = stage_backward_input([y], [torch.ones(1)], [x], iter([weight]))
stage_backward_weight(iter([weight]), groups)
print(f"expected 2.0, actual {weight.grad.item()}")
sys.exit(weight.grad.item() == 2.0)
