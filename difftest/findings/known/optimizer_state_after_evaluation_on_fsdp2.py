"""FSDP2: `get_optimizer_state_dict` raises a KeyError after an evaluation.

The root stays gathered, so that the optimizer's parameters are not among `model.named_parameters()`.
`get_state_dict` takes the module's state first, and works. torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from torch.distributed.fsdp import fully_shard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = nn.Linear(2, 2, bias=False)
    fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    with torch.no_grad():
        model(torch.ones(1, 2))
    try:
        state = get_optimizer_state_dict(model, optimizer)
    except KeyError as error:
        print(f"rank {rank}: expected a state dict, actual KeyError {error}")
        sys.exit(0)
    print(f"rank {rank}: expected and actual {list(state['state'])}")
    sys.exit(1)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
