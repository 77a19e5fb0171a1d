"""`scatter_add` adds wrong elements if the source is larger than the index.

torch 2.15.0 over gloo. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

TABLE = torch.arange(16).reshape(4, 4)


def call(to):
    return to(TABLE, 1).scatter_add(0, to(TABLE[:1] * 0, 1), to(torch.arange(6)[None], 1))


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
