"""`torch.distributed.nn.gather` to a rank of a group compares that rank's number in all with its number in the group.

torch 2.9.0.
"""

import tempfile

import torch
import torch.distributed.nn.functional as differentiable
from torch import distributed, multiprocessing


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    alone = distributed.new_group([1])
    if rank == 1:
        differentiable.gather(torch.ones(1), 1, group=alone)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
