"""Functional collectives: no gradient goes through `reduce_scatter_tensor`, in silence.

torch 2.9.0 over gloo. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed import _functional_collectives as functional


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    own = torch.ones(2, requires_grad=True)
    part = functional.reduce_scatter_tensor(own * 1, "sum", 0, distributed.group.WORLD)
    (functional.wait_tensor(part) * (rank + 1)).sum().backward()
    actual = None if own.grad is None else own.grad.tolist()
    print(f"rank {rank}: expected a gradient of [1.0, 2.0], actual {actual}")
    sys.exit(actual == [1.0, 2.0])


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
