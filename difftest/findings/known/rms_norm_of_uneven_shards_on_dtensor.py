"""RMS norm over a dim that ranks share unevenly is wrong: it takes the mean of the ranks' means of squares.

Three numbers on two ranks count as (1 + 4) / 2 and 9, whose mean is 5.75; the mean of the squares is 14 / 3.
torch 2.9.0, two ranks over gloo. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    row = torch.tensor([1.0, 2.0, 3.0])
    expected = torch.nn.functional.rms_norm(row, (3,))
    sharded = distribute_tensor(row, init_device_mesh("cpu", (2,)), [Shard(0)])
    actual = torch.nn.functional.rms_norm(sharded, (3,)).full_tensor()
    if rank == 0:
        print(f"expected {expected.tolist()}, actual {actual.tolist()}")
    sys.exit(torch.allclose(actual, expected))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
