"""A block of two weights that a stage applies twice fails in zero-bubble schedules.

torch 2.9.0 and 2.15.0. `stage_backward_weight` goes through the nodes between both uses for either weight, and frees
them for the first.
"""

import torch
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

x, a, b = torch.ones(1, requires_grad=True), *(torch.nn.Parameter(torch.ones(1)) for _ in range(2))
y = x * a * b * a * b
_, groups = stage_backward_input([y], [torch.ones(1)], [x], iter([a, b]))
stage_backward_weight(iter([a, b]), groups)
print(f"expected [2.0, 2.0], actual {[a.grad.item(), b.grad.item()]}")
