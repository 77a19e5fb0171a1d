"""DDP: the second `torch.func.jvp` fails, as buckets are made anew in it.

torch 2.9.0 and 2.15.0 over gloo. Dual numbers do the same without a fault.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = DistributedDataParallel(nn.Linear(4, 4))
    inputs, direction = torch.ones(2, 4), torch.ones(2, 4)
    for _ in range(2):
        output, derivative = torch.func.jvp(model, (inputs,), (direction,))
        (output.square().sum() + derivative.square().sum()).backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
