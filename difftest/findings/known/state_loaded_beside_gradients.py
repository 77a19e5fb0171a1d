"""Distributed state dicts: no moments of a flattened state are loaded where parameters have gradients.

An optimizer without a state gets one to load into, but not if a parameter has a gradient, as after a dry run.
torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
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
    options = StateDictOptions(flatten_optimizer_state_dict=True)
    kept = []
    for dry in (False, True):
        model = nn.Linear(2, 2, bias=False)
        fully_shard(model)
        optimizer = torch.optim.Adam(model.parameters())
        if not dry:
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            state = get_optimizer_state_dict(model, optimizer, options=options)
        else:
            model(torch.ones(1, 2)).sum().backward()
            optimizer.zero_grad(set_to_none=False)
            set_optimizer_state_dict(model, optimizer, state, options=options)
        kept.append(sorted(optimizer.state[model.weight]))
    print(f"rank {rank}: expected the state {kept[0]}, actual {kept[1]}")
    sys.exit(kept[0] == kept[1])


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
