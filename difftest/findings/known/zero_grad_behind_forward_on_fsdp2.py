"""FSDP2: `zero_grad` of the model clears nothing in the root between the forward pass and the backward pass.

The root stays gathered behind its forward pass, so that `model.parameters()` are not those that have gradients, and each step
adds to the gradients of the last one. The optimizer's `zero_grad` clears them. torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.fsdp import fully_shard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = nn.Linear(2, 2, bias=False)
    fully_shard(model)
    for _ in range(3):
        loss = model(torch.ones(1, 2)).sum()
        model.zero_grad()
        loss.backward()
    expected, actual = 1.0, model.weight.grad.full_tensor()[0, 0].item()
    print(f"rank {rank}: expected a gradient of {expected} in the third step, actual {actual}")
    sys.exit(expected == actual)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
