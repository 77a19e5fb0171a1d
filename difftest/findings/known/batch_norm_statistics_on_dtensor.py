"""Batch norm over sharded channels does not update replicated running statistics.

torch 2.15.0 over gloo. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn import functional


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x, expected = torch.arange(16.0).reshape(4, 4), torch.zeros(4)
    functional.batch_norm(x, expected, torch.ones(4), training=True)
    mean, variance = (distribute_tensor(one, mesh, [Replicate()]) for one in (torch.zeros(4), torch.ones(4)))
    functional.batch_norm(distribute_tensor(x, mesh, [Shard(1)]), mean, variance, training=True)
    actual = mean.full_tensor()
    if rank == 0:
        print(f"running mean: expected {expected.tolist()}, actual {actual.tolist()}")
    sys.exit(torch.equal(actual, expected))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
