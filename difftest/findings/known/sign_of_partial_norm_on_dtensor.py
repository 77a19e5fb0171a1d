"""DTensor: the norm of a sharded tensor times a negative number is positive.

Each rank's norm is multiplied, and then squared as the norms are put together. torch 2.9.0. Exits 0 while the
fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    sharded = distribute_tensor(torch.tensor([3.0, 4.0]), init_device_mesh("cpu", (2,)), [Shard(0)])
    actual = (torch.linalg.vector_norm(sharded) * -2.0).full_tensor().item()
    distributed.destroy_process_group()
    if rank == 0:
        print(f"expected -10.0, actual {actual}")
        sys.exit(0 if actual != -10.0 else 3)


if __name__ == "__main__":
    try:
        multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
    except multiprocessing.ProcessExitedException:
        sys.exit(1)
