"""A flattened optimizer state dict without a parameter's state fails with a TypeError that does not say so.

torch 2.9.0 and 2.15.0. Not flattened, the same names the parameter.
"""

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

model, options = nn.Linear(1, 1), StateDictOptions(flatten_optimizer_state_dict=True)
saved, loaded = (torch.optim.Adam(model.parameters(), lr=0.1) for _ in range(2))
model.weight.grad = torch.ones(1, 1)
saved.step()
saved.zero_grad()
set_optimizer_state_dict(
    model, loaded, get_optimizer_state_dict(model, saved, options=options), options=options
)
