"""Optimizers with `fused=True` are refused for parameters on XLA, in the first step.

torch 2.9.0 with torch_xla 2.9.0 on the CPU.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

weight = torch.nn.Parameter(torch.ones(2, device=torch_xla.device()))
optimizer = torch.optim.SGD([weight], lr=0.5, fused=True)
weight.grad = torch.ones_like(weight)
optimizer.step()
print("expected [0.5, 0.5], actual", weight.tolist())
