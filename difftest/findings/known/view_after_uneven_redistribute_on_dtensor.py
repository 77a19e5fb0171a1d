"""`view` and `flatten` fail after a redistribution between dims that the ranks share unevenly.

The pieces are cut to size after they were exchanged, and keep the strides of what they were cut from. The
DTensor says that it is contiguous. torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.ones(4, 7, 8), mesh, [Shard(1)]).redistribute(mesh, [Shard(2)])
    print(f"rank {rank}: contiguous {x.is_contiguous()}, its piece {x.to_local().is_contiguous()}")
    try:
        print(f"rank {rank}: expected (28, 8), actual {tuple(x.flatten(0, 1).shape)}")
    except RuntimeError as error:
        print(f"rank {rank}: expected (28, 8), actual {error}")
        sys.exit(0)
    sys.exit(1)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
