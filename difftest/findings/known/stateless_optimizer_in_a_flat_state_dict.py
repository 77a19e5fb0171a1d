"""A flattened state dict gives an optimizer without state an empty one for each of its parameters.

torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

model, options = nn.Linear(1, 1), StateDictOptions(flatten_optimizer_state_dict=True)
saved, loaded = (torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2))
model(torch.ones(1, 1)).sum().backward()
saved.step()
saved.zero_grad()
set_optimizer_state_dict(
    model, loaded, get_optimizer_state_dict(model, saved, options=options), options=options
)
print(f"expected {saved.state_dict()['state']}, actual {loaded.state_dict()['state']}")
sys.exit(loaded.state_dict() == saved.state_dict())
