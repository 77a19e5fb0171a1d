"""`DTensor.mean` over a dim that is sharded unevenly averages the local means (pytorch#162692).

Exits 0 when the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    values = torch.tensor([0.0, 0.0, 3.0])
    mean = distribute_tensor(values, mesh, [Shard(0)]).mean().full_tensor().item()
    distributed.destroy_process_group()
    if rank == 0:
        print(f"expected mean 1, actual {mean:g}")
        sys.exit(0 if abs(mean - 1) > 0.1 else 3)


if __name__ == "__main__":
    try:
        multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
    except multiprocessing.ProcessExitedException:
        sys.exit(1)
