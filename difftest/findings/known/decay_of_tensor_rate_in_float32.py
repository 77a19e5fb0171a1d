"""`torch.optim.AdamW` with `lr=torch.tensor(1e-6)` decays weights of float64 by nothing, because `1 - lr * weight_decay` is in float32.

torch 2.9.0. Exits 0 while the fault is there. Adam, Adamax, NAdam, ASGD and Adafactor have other numbers in the dtype of such a rate.
"""

import sys

import numpy as np
import torch

RATE, DECAY, STEPS = 2.0**-20, 2.0**-6, 1000  # all are exact in float32


def trained(rate: float | torch.Tensor) -> float:
    parameter = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = torch.optim.AdamW([parameter], lr=rate, weight_decay=DECAY)
    for _ in range(STEPS):
        parameter.grad = torch.zeros(1, dtype=torch.float64)
        optimizer.step()
    return parameter.item()


expected, actual = float(np.power(1 - RATE * DECAY, STEPS)), trained(torch.tensor(RATE))
print(f"expected {expected:.16g}, actual {actual:.16g}; with a number as rate {trained(RATE):.16g}")
sys.exit(bool(np.isclose(actual, expected, rtol=1e-12, atol=0.0)))
