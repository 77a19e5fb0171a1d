"""Distributed state dicts: the optimizer's state of a parameter that is frozen when it is loaded is lost.

A run that freezes a parameter for a while, and is resumed in between, trains it later without its moments.
torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import copy
import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.fsdp import fully_shard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    weights = {}
    for resumed in (False, True):
        model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
        for parameter in model.parameters():
            nn.init.ones_(parameter)
        fully_shard(model)
        first, second = model.parameters()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
        for step in range(3):
            first.requires_grad_(step != 1)
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if resumed and step == 1:
                state = copy.deepcopy(get_optimizer_state_dict(model, optimizer))
                optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
                set_optimizer_state_dict(model, optimizer, state)
        weights[resumed] = first.full_tensor()[0, 0].item()
    print(f"rank {rank}: expected a weight of {weights[False]}, actual {weights[True]}")
    sys.exit(weights[False] == weights[True])


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
