"""`torch.distributed.nn.reduce` with AVG gives every rank the whole gradient of a mean, and not its share.

torch 2.9.0. Its backward pass is a broadcast, whatever the reduction. Silent. Exits 0 while the fault is there.
"""

import tempfile

import torch
import torch.distributed.nn.functional as differentiable
from torch import distributed, multiprocessing


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    x = torch.ones(1, requires_grad=True)
    mean = differentiable.reduce(x * 1.0, 0, op=distributed.ReduceOp.AVG)
    (mean * (1.0 if rank == 0 else 0.0)).sum().backward()
    print(f"rank {rank}: expected 0.5, actual {x.grad.item()}")
    raise SystemExit(x.grad.item() == 0.5)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
