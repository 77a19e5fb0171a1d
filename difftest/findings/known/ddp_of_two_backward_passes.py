"""DDP reduces in the first of two backward passes, and leaves the gradients of the second on their rank.

torch 2.9.0. Both forward passes come first, as in a step of two views. Silent. Exits 0 while the fault is there.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = DistributedDataParallel(nn.Linear(1, 1, bias=False))
    x = torch.full((1, 1), rank + 1.0)
    for loss in [model(x).sum(), model(x).sum()]:
        loss.backward()
    actual = model.module.weight.grad.item()
    print(f"rank {rank}: expected 3.0, actual {actual}")
    raise SystemExit(actual == 3.0)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
