"""The gradient of what `torch.distributed.nn.gather` gives is of the wrong elements where it has strides, over gloo.

torch 2.9.0. The backward pass scatters it, and gloo ignores strides. Silent. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
import torch.distributed.nn.functional as differentiable
from torch import distributed, multiprocessing


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    x = torch.ones(2, requires_grad=True)
    gathered = torch.stack(list(differentiable.gather(x * 1.0, 0)), -1)
    weights = torch.tensor([[1.0, 2.0], [3.0, 4.0]]) if rank == 0 else torch.zeros(2, 2)
    (gathered * weights).sum().backward()
    expected, actual = [1.0 + rank, 3.0 + rank], x.grad.tolist()
    print(f"rank {rank}: expected {expected}, actual {actual}")
    sys.exit(actual == expected)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
