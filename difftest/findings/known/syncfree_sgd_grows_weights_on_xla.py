"""`syncfree.SGD` with `maximize` and `weight_decay` lets weights grow.

It negates the gradient after it has added the decay, torch before. torch_xla 2.9.0 on the CPU. Exits 0 while the
fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
from torch_xla.amp import syncfree

options = {"lr": 0.5, "weight_decay": 0.5, "momentum": 0.5, "maximize": True}
host = torch.nn.Parameter(torch.tensor([4.0], dtype=torch.float64))
weight = torch.nn.Parameter(torch.tensor([4.0]).to("xla"))
reference, optimizer = torch.optim.SGD([host], **options), syncfree.SGD([weight], **options)
for _ in range(2):
    host.grad, weight.grad = torch.zeros_like(host), torch.zeros_like(weight)
    reference.step()
    optimizer.step(found_inf=torch.tensor(0.0).to("xla"))
expected, actual = host.item(), weight.item()
print(f"gradients are zero, so that the weight 4 must decay: expected {expected}, actual {actual}")
sys.exit(actual == expected)
