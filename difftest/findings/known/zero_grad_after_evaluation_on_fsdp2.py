"""FSDP2: `zero_grad` of the model clears nothing in the root after an evaluation.

A forward pass without gradients leaves the root gathered, so that `model.parameters()` are not those that the
optimizer has. The next step adds to the gradients of the last one. In the same way `clip_grad_norm_` does not
clip, and `requires_grad_` does not freeze. torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.fsdp import fully_shard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    weights = {}
    for sharded in (False, True):
        model = nn.Linear(2, 2, bias=False)
        nn.init.ones_(model.weight)
        if sharded:
            fully_shard(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        for step in range(2):
            model.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            with torch.no_grad():
                model(torch.ones(1, 2))
        if sharded:
            model.reshard()
        weight = model.weight.full_tensor() if sharded else model.weight
        weights[sharded] = weight[0, 0].item()
    print(f"rank {rank}: expected a weight of {weights[False]} after two steps, actual {weights[True]}")
    sys.exit(weights[False] == weights[True])


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
