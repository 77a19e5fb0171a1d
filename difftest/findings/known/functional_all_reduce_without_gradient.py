"""Functional collectives: gradients go through `all_reduce` as if it were the identity, beside a warning.

torch 2.9.0 over gloo. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed import _functional_collectives as functional


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    own = torch.ones(1, requires_grad=True)
    total = functional.all_reduce(own * 1, "sum", distributed.group.WORLD)
    (functional.wait_tensor(total) * (rank + 1)).sum().backward()
    print(f"rank {rank}: expected a gradient of 3.0, actual {own.grad.item()}")
    sys.exit(own.grad.item() == 3.0)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
