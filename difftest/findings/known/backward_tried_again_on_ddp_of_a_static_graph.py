"""DDP with a static graph: behind an exception in its first backward pass gradients are not averaged.

The program catches it, and the pass that follows passes for the second. torch 2.9.0 and 2.15.0 over gloo.
Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


def fail(*_: object) -> None:
    raise torch.OutOfMemoryError


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = nn.Sequential(nn.Linear(2, 1, bias=False))
    trained = DistributedDataParallel(model, static_graph=True)
    hook = model[0].register_full_backward_pre_hook(fail)
    try:
        trained(torch.ones(1, 2)).sum().backward()
    except torch.OutOfMemoryError:
        hook.remove()
        trained.zero_grad()
    trained(torch.full((1, 2), 1.0 + rank)).sum().backward()
    print(f"rank {rank}: expected the gradient [[1.5, 1.5]], actual {model[0].weight.grad.tolist()}")
    sys.exit(model[0].weight.grad.tolist() == [[1.5, 1.5]])


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
