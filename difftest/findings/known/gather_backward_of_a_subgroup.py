"""The backward pass of `torch.distributed.nn.all_gather` takes ranks of the group for ranks of all, over gloo.

torch 2.9.0. It scatters from ranks 0, 1, ... of all, which a group of others does not have.
"""

import tempfile

import torch
import torch.distributed.nn.functional as differentiable
from torch import distributed, multiprocessing


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    alone = distributed.new_group([1])
    if rank == 1:
        (gathered,) = differentiable.all_gather(torch.ones(1, requires_grad=True), group=alone)
        gathered.sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
