"""`get_state_dict` of an optimizer that has not run makes its state by a step, which counts: Adam's first update is as its second.

torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict


def update(saves: bool) -> torch.Tensor:
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0)
    if saves:
        weights, state = get_state_dict(model, optimizer)
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return model.weight.detach()


expected, actual = update(saves=False), update(saves=True)
print(f"expected {expected.tolist()}, actual {actual.tolist()}")
sys.exit(torch.equal(actual, expected))
