"""Checkpoint: a flattened state dict loses `initial_lr`, so that no scheduler can go on from its epoch.

torch 2.9.0 and 2.15.0. A nested one keeps it.
"""

import tempfile

import torch
from torch import distributed, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
model = nn.Linear(4, 4)
first = torch.optim.AdamW(model.parameters(), lr=0.5)
scheduler = torch.optim.lr_scheduler.ExponentialLR(first, 0.5)
model(torch.ones(2, 4)).sum().backward()
first.step()
scheduler.step()
first.zero_grad()
options = StateDictOptions(flatten_optimizer_state_dict=True)
state = get_optimizer_state_dict(model, first, options=options)
second = torch.optim.AdamW(model.parameters(), lr=0.5)
set_optimizer_state_dict(model, second, state, options=options)
torch.optim.lr_scheduler.ExponentialLR(second, 0.5, last_epoch=1)
