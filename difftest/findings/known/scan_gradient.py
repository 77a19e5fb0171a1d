"""The gradient of `scan` lacks what goes through its state, as here that of a parameter that its body closes over.

A recurrence `state = tanh(decay * state + row)` as a loop and by `scan` gives the same results, and other
gradients of `decay`. torch 2.9.0. Exits 0 while the fault is there.
"""

import sys

import torch
from torch._higher_order_ops.scan import scan

rows = torch.linspace(-1.0, 1.0, 24).reshape(3, 8)


def looped(decay):
    state, states = torch.zeros(8), []
    for row in rows:
        state = torch.tanh(decay * state + row)
        states.append(state)
    return torch.stack(states)


def scanned(decay):
    def step(state, row):
        state = torch.tanh(decay * state + row)
        return state, state.clone()

    return scan(step, torch.zeros(8), rows, dim=0)[1]


gradients = []
for recurrence in (looped, scanned):
    decay = torch.full((8,), 0.7, requires_grad=True)
    recurrence(decay)[-1].sum().backward()
    gradients.append(decay.grad)
expected, actual = gradients
print(f"expected {expected.tolist()}, actual {actual.tolist()}")
sys.exit(int(torch.allclose(expected, actual)))
