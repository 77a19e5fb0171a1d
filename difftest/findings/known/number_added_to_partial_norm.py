"""DTensor: a number that is added to the norm of a sharded tensor is added on every rank.

`clip_grad_norm_` adds 1e-6 so, which is twice as much over four ranks. torch 2.9.0 over gloo. Exits 0 while
the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=4)
    sharded = distribute_tensor(torch.ones(4, 4), init_device_mesh("cpu", (4,)), [Shard(0)])
    actual = (torch.linalg.vector_norm(sharded) + 1.0).full_tensor().item()
    if rank == 0:
        print(f"expected 5.0, actual {actual}")
        sys.exit(actual == 5.0)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 4)
