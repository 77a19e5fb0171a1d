"""ZeroRedundancyOptimizer under Join with DDP: a rank without a batch never updates the parameters that are its own.

It has no gradients, for DDP's join hook keeps no sums. Gloo. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 4))
    parameters = list(model.parameters())
    optimizer = ZeroRedundancyOptimizer(parameters, optimizer_class=torch.optim.SGD, lr=1.0)
    before = [parameter.detach().clone() for parameter in parameters]
    with Join([model, optimizer]):
        if rank == 0:
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    moved = [bool((now != old).any()) for now, old in zip(parameters, before, strict=True)]
    print(f"rank {rank}: expected both parameters to be updated, [True, True]; actual {moved}")
    sys.exit(all(moved))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
