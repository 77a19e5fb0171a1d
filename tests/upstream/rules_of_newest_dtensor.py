"""What DTensor's rules for operators get wrong on two ranks, without a word; a name runs one alone.

torch 2.15.0 over gloo. Exits 0 when all faults are there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn import functional

ROWS, TABLE = torch.tensor([[-1.0, -1.0], [3.0, -2.0]]), torch.arange(16).reshape(4, 4)


def batch_norm(to: object) -> torch.Tensor:
    mean = to(torch.zeros(4), None)
    functional.batch_norm(to(TABLE.float(), 1), mean, to(torch.ones(4), None), training=True)
    return mean


def embedding(to: object) -> torch.Tensor:
    table = to(torch.ones(2, 1), None).requires_grad_()
    functional.embedding(to(torch.tensor([0, 0, 0, 1]), 0), table, scale_grad_by_freq=True).sum().backward()
    return table.grad


FAULTS = {
    "norm_of_halves": lambda to: torch.linalg.vector_norm(to(torch.full((4,), 200.0).half(), 0)),
    "threshold": lambda to: functional.threshold(to(ROWS, 0).amax(0), 0.0, 20.0),
    "fill": lambda to: to(ROWS, 0).sum(0).fill_(3.0),
    "scatter_add": lambda to: to(TABLE, 1).scatter_add(0, to(TABLE[:1] * 0, 1), to(torch.arange(6)[None], 1)),
    "histc": lambda to: torch.histc(to(torch.arange(4.0), 0), 4, 3, 3),
    "batch_norm": batch_norm,
    "embedding": embedding,
}


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh, there = init_device_mesh("cpu", (2,)), True

    def placed(tensor: torch.Tensor, dim: int | None) -> torch.Tensor:
        return distribute_tensor(tensor, mesh, [Replicate() if dim is None else Shard(dim)])

    for name in sys.argv[1:] or FAULTS:
        expected, actual = FAULTS[name](lambda tensor, _: tensor), FAULTS[name](placed).full_tensor()
        print(f"{name}: expected {expected.tolist()}, actual {actual.tolist()} of {actual.dtype}")
        there &= actual.dtype != expected.dtype or not torch.equal(actual, expected)
    sys.exit(None if there else "not there")


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
