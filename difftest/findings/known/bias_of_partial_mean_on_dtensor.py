"""DTensor: `addmm` adds a partial mean to products as if it were a partial sum.

A bias that is a mean over the rows of a batch. torch 2.9.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

RANKS = 2


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    x, a, b = torch.tensor([[2.0, 4.0], [6.0, 8.0]]), torch.eye(2), torch.ones(2, 2)
    expected = torch.addmm(x.mean(0), a, b)
    whole = [distribute_tensor(one, mesh, [Replicate()]) for one in (a, b)]
    actual = torch.addmm(distribute_tensor(x, mesh, [Shard(0)]).mean(0), *whole).full_tensor()
    distributed.destroy_process_group()
    if rank == 0:
        print(f"addmm(x.mean(0), a, b): expected {expected.tolist()}, actual {actual.tolist()}")
    sys.exit(torch.equal(actual, expected))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), RANKS)
