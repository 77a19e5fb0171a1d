"""Distributed state dicts: an optimizer's state that is full and flattened cannot be loaded.

`get_optimizer_state_dict` takes both options, `set_optimizer_state_dict` raises a KeyError. torch 2.9.0 and
2.15.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import fully_shard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = nn.Linear(2, 2, bias=False)
    fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    options = StateDictOptions(full_state_dict=True, flatten_optimizer_state_dict=True)
    state = get_optimizer_state_dict(model, optimizer, options=options)
    try:
        set_optimizer_state_dict(model, optimizer, state, options=options)
    except KeyError as error:
        print(f"rank {rank}: expected to load what was taken, actual KeyError {error}")
        sys.exit(0)
    print(f"rank {rank}: expected and actual: loaded")
    sys.exit(1)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
