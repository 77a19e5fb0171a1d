"""DTensor: `all` over a sharded dim is true as soon as it is true on one rank.

A step that is skipped where gradients are not finite is not skipped. torch 2.9.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

RANKS = 2


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    gradient = torch.tensor([1.0, 2.0, 3.0, float("inf")])
    expected = gradient.isfinite().all().item()
    actual = distribute_tensor(gradient, mesh, [Shard(0)]).isfinite().all().full_tensor().item()
    distributed.destroy_process_group()
    if rank == 0:
        print(f"isfinite().all(): expected {expected}, actual {actual}")
    sys.exit(actual == expected)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), RANKS)
