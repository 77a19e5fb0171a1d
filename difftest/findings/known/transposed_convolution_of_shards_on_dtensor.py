"""DTensor: a transposed convolution of a sharded length takes each rank's piece for all of it, and has another shape.

torch 2.15.0, silent; 2.9.0 refuses it. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x, weight = torch.ones(1, 1, 4), torch.ones(1, 1, 3)
    pieces = distribute_tensor(x, mesh, [Shard(2)]), distribute_tensor(weight, mesh, [Replicate()])
    actual = torch.conv_transpose1d(*pieces, stride=2).full_tensor().shape
    expected = torch.conv_transpose1d(x, weight, stride=2).shape
    if rank == 0:
        print(f"expected {tuple(expected)}, actual {tuple(actual)}", flush=True)
    distributed.barrier()
    sys.exit(actual == expected)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
