"""Batch, group and instance norm with an infinite weight are NaN on the CPU.

The documented formula, (x - E[x]) / sqrt(Var[x] + eps) * weight + bias, gives infinities. They are computed
as x * scale + shift, in which both are infinite. torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys

import torch
from torch.nn import functional

WEIGHT = torch.tensor([torch.inf])
ROW = torch.tensor([[[1.0, 2.0, 4.0]]])
CALLS = {
    "batch_norm": lambda: functional.batch_norm(ROW, None, None, WEIGHT, training=True),
    "group_norm": lambda: functional.group_norm(ROW, 1, WEIGHT),
    "instance_norm": lambda: functional.instance_norm(ROW, weight=WEIGHT),
}
expected = functional.layer_norm(ROW, (3,)) * WEIGHT
right = False
for name in CALLS:
    actual = CALLS[name]()
    print(f"{name}: expected {expected.flatten().tolist()}, actual {actual.flatten().tolist()}")
    right |= not actual.isnan().any()
sys.exit(1 if right else 0)
