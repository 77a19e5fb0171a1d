"""The gradient of the value that `index_fill` writes fails for a negative index, which the call itself takes.

torch 2.9.0: the backward pass selects by the same index, and `index_select` takes none below 0. Exits 0 while
the fault is there.
"""

import sys

import torch

value = torch.tensor(2.0, requires_grad=True)
filled = torch.index_fill(torch.ones(3), 0, torch.tensor([-1]), value)
try:
    filled.sum().backward()
except IndexError as error:
    print(f"expected a gradient of 1, got IndexError: {error}")
    sys.exit(0)
sys.exit(1)
