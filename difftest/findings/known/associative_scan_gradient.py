"""The gradient of a fusible `associative_scan` of several tensors is wrong.

A linear recurrence `state = decay * state + row`, as a loop and by a scan of pairs, gives the same results and other
gradients of the decays. torch 2.15.0 on a CPU; 2.9.0 refuses such a scan there. With `combine_mode="generic"` it is
right. Exits 0 while the fault is there.
"""

import sys

import torch
from torch._higher_order_ops import associative_scan

rows = torch.linspace(-1.0, 1.0, 4)


def looped(decays):
    state, states = torch.zeros(()), []
    for decay, row in zip(decays, rows):
        state = decay * state + row
        states.append(state)
    return torch.stack(states)


def joined(left, right):
    return left[0] * right[0], right[0] * left[1] + right[1]


def scanned(decays):
    return associative_scan(joined, (decays, rows), dim=0, combine_mode="pointwise")[1]


gradients = []
for recurrence in (looped, scanned):
    decays = torch.full((4,), 0.5, requires_grad=True)
    recurrence(decays).sum().backward()
    gradients.append(decays.grad)
expected, actual = gradients
print(f"expected {expected.tolist()}, actual {actual.tolist()}")
sys.exit(int(torch.allclose(expected, actual)))
