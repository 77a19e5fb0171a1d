"""The gradient of `torch.distributed.nn.broadcast` is lost in a group whose ranks are not those of all.

torch 2.9.0. Its backward pass keeps the gradient where the rank in the group equals the source, which is a rank of
all. Rank 1 broadcasts in a group of its own, where it has the rank 0.
"""

import sys
import tempfile

import torch
import torch.distributed.nn.functional as differentiable
from torch import distributed, multiprocessing


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    alone = distributed.new_group([1])
    if rank == 1:
        given = torch.ones(1, requires_grad=True)
        differentiable.broadcast(given, 1, group=alone).sum().backward()
        print("expected a gradient of 1, got", given.grad.item())
        sys.exit(given.grad.item() == 1.0)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
