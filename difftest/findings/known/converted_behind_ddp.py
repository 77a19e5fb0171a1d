"""DDP: what is converted behind the wrapper is not averaged any more, without a word.

torch 2.9.0 and 2.15.0 over gloo. DDP listens to where the parameters' gradients were accumulated before. A frozen
parameter that is trained from then on, and a new layer, have the same. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = DistributedDataParallel(nn.Linear(2, 1, bias=False))
    model.double().float()
    model(torch.full((1, 2), 1.0 + rank)).sum().backward()
    gradient = model.module.weight.grad[0, 0].item()
    if rank == 0:
        print(f"expected 1.5, actual {gradient}")
    distributed.barrier()
    sys.exit(int(abs(gradient - 1.5) < 1e-6))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
