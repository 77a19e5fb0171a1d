"""`clip_grad_norm_` with the infinity norm reads a number on the host for all gradients but one.

torch_xla replaces torch's function by its own, which takes Python's `max` of tensors. So the device waits in
every step. With the 2-norm nothing is read.

torch_xla 2.9.0 on the CPU. Exits 0 when the fault is there.
"""

import math
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
from torch_xla.debug import metrics

read = []
for order in (2.0, math.inf):
    weights = [torch.nn.Parameter(torch.ones(size, device=torch_xla.device())) for size in (1, 2, 3)]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    torch_xla.sync()
    metrics.clear_all()
    torch.nn.utils.clip_grad_norm_(weights, 1.0, norm_type=order)
    read.append(metrics.counter_value("aten::_local_scalar_dense") or 0)
print(f"numbers read on the host: expected none, actual {read[0]} (2-norm), {read[1]} (infinity norm)")
sys.exit(0 if read == [0, 2] else 1)
