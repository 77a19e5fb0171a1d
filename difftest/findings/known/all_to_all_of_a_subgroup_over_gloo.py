"""`torch.distributed.nn.all_to_all` over gloo takes the ranks of a group for those of all.

torch 2.9.0. It scatters from each rank of the group, by its number within the group.
"""

import tempfile

import torch
import torch.distributed.nn.functional as differentiable
from torch import distributed, multiprocessing


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    alone = distributed.new_group([1])
    if rank == 1:
        differentiable.all_to_all([torch.empty(1)], [torch.ones(1)], group=alone)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
