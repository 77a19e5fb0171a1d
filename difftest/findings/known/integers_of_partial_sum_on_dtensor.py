"""DTensor: a partial sum is converted to integers or booleans before it is added up.

torch 2.9.0. Exits 0 while the fault is there.
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
    x = torch.tensor([0.5, 1.0, 0.5, 1.0])
    y = torch.tensor([3.0, -3.0])
    pieces, opposite = distribute_tensor(x, mesh, [Shard(0)]), distribute_tensor(y, mesh, [Shard(0)])
    expected = [x.sum().long().item(), y.sum().bool().item()]
    actual = [pieces.sum().long().full_tensor().item(), opposite.sum().bool().full_tensor().item()]
    distributed.destroy_process_group()
    if rank == 0:
        print(f"sum().long() and sum().bool(): expected {expected}, actual {actual}")
    sys.exit(actual == expected)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), RANKS)
