"""Distributed state dicts: the state of an optimizer with a group without parameters cannot be loaded when it is flattened.

torch 2.9.0. With `full_state_dict` an assertion fails in its place.
"""

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

model = nn.Linear(4, 2)
optimizer = torch.optim.AdamW([{"params": [*model.parameters()]}, {"params": []}])
model(torch.ones(1, 4)).sum().backward()
optimizer.step()
flattened = StateDictOptions(flatten_optimizer_state_dict=True)
state = get_optimizer_state_dict(model, optimizer, options=flattened)
set_optimizer_state_dict(model, optimizer, state, options=flattened)
