"""On a mesh of unsorted ranks `redistribute` cuts by coordinate, and gathers put the shards by rank.

torch 2.9.0 and 2.15.0. Exits 0 when the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = DeviceMesh("cpu", [1, 0])
    values = torch.arange(4)
    shards = distribute_tensor(values, mesh, [Replicate()]).redistribute(placements=[Shard(0)])
    gathered = shards.full_tensor().tolist()
    distributed.destroy_process_group()
    if rank == 0:
        print(f"expected {values.tolist()}, actual {gathered}")
        sys.exit(0 if gathered == [2, 3, 0, 1] else 3)


if __name__ == "__main__":
    try:
        multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
    except multiprocessing.ProcessExitedException:
        sys.exit("not there")
