"""Distributed state dicts: a group without parameters that comes first loses its options.

The options of the last group are given to the group that was found empty; the next step raises a KeyError.
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
    rates = {}
    for first in (False, True):
        model = nn.Linear(2, 2, bias=False)
        fully_shard(model)
        empty, full = {"params": [], "lr": 0.25}, {"params": [model.weight], "lr": 0.5}
        optimizer = torch.optim.SGD([empty, full] if first else [full, empty], momentum=0.5)
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        set_optimizer_state_dict(model, optimizer, copy.deepcopy(get_optimizer_state_dict(model, optimizer)))
        rates[first] = [group.get("lr") for group in optimizer.param_groups]
    print(
        f"rank {rank}: expected [0.5, 0.25] with the empty group last, and [0.25, 0.5] with it first; actual {rates[False]}, {rates[True]}"
    )
    sys.exit(rates == {False: [0.5, 0.25], True: [0.25, 0.5]})


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
