"""`torch.optim.NAdam` keeps the product of its momenta in the default dtype, float32, where parameters are of float64.

torch 2.9.0. Exits 0 while the fault is there.
"""

import sys

import numpy as np
import torch

LR, BETA1, BETA2, EPS, DECAY = 2e-3, 0.9, 0.999, 1e-8, 4e-3


def momentum(step: int) -> float:
    return BETA1 * (1 - 0.5 * 0.96 ** (step * DECAY))


def by_formula(steps: int) -> float:
    parameter, first, second, product = 1.0, 0.0, 0.0, 1.0
    for step in range(1, steps + 1):
        gradient = float(step)
        first, second = BETA1 * first + (1 - BETA1) * gradient, BETA2 * second + (1 - BETA2) * gradient**2
        product *= momentum(step)
        ahead = momentum(step + 1) * first / (1 - product * momentum(step + 1))
        along = ahead + (1 - momentum(step)) * gradient / (1 - product)
        parameter -= LR * along / (np.sqrt(second / (1 - BETA2**step)) + EPS)
    return parameter


parameter = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
optimizer = torch.optim.NAdam([parameter], lr=LR, betas=(BETA1, BETA2), eps=EPS, momentum_decay=DECAY)
for step in range(1, 11):
    parameter.grad = torch.full((1,), float(step), dtype=torch.float64)
    optimizer.step()
expected, actual = by_formula(10), parameter.item()
print(
    f"mu_product is {optimizer.state[parameter]['mu_product'].dtype}; expected {expected:.16g}, actual {actual:.16g}"
)
sys.exit(bool(np.isclose(actual, expected, rtol=1e-14, atol=0.0)))
