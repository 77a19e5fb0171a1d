"""`torch.distributed.nn.functional.scatter` fails in a group whose first rank is not the first of all.

It compares the source, a rank of all, with its own rank in the group.
"""

import tempfile

import torch
import torch.distributed.nn.functional as differentiable
from torch import distributed, multiprocessing


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    alone = distributed.new_group([1])
    if rank == 1:
        print(differentiable.scatter([torch.ones(1, requires_grad=True)], 1, group=alone))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
