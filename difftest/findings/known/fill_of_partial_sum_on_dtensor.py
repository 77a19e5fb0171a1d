"""`fill_` and `view(dtype)` of a partial sum act on each rank's share.

torch 2.15.0 over gloo. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

ROWS = torch.tensor([[-1.0, -1.0], [3.0, -2.0]])


def call(to):
    return to(ROWS, 0).sum(0).fill_(3.0)


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))

    def placed(tensor: torch.Tensor, dim: int | None) -> torch.Tensor:
        return distribute_tensor(tensor, mesh, [Replicate() if dim is None else Shard(dim)])

    expected, actual = call(lambda tensor, _: tensor), call(placed).full_tensor()
    print(f"expected {expected.tolist()}, actual {actual.tolist()} of {actual.dtype}")
    sys.exit(not (actual.dtype != expected.dtype or not torch.equal(actual, expected)))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
