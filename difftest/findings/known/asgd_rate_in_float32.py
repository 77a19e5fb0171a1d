"""`torch.optim.ASGD` keeps its rate `eta` in the default dtype: parameters of float64 are trained with a rate of float32.

torch 2.9.0. Exits 0 while the fault is there.
"""

import sys

import numpy as np
import torch

LR, LAMBD, ALPHA = 1e-2, 1e-4, 0.75


def by_formula(steps: int) -> float:
    parameter, rate = 1.0, LR
    for step in range(1, steps + 1):
        parameter = (1 - LAMBD * rate) * parameter - rate * 1.0
        rate = LR / (1 + LAMBD * LR * step) ** ALPHA
    return parameter


parameter = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
optimizer = torch.optim.ASGD([parameter], lr=LR, lambd=LAMBD, alpha=ALPHA)
for _ in range(10):
    parameter.grad = torch.ones(1, dtype=torch.float64)
    optimizer.step()
expected, actual = by_formula(10), parameter.item()
print(f"eta is {optimizer.state[parameter]['eta'].dtype}; expected {expected:.16g}, actual {actual:.16g}")
sys.exit(bool(np.isclose(actual, expected, rtol=1e-14, atol=0.0)))
