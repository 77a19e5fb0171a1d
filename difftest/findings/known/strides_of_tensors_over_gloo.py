"""gloo takes a tensor with strides for one without them in `reduce`, `all_reduce`, `scatter` and `broadcast`.

torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing


def strided(first: float) -> torch.Tensor:
    return torch.tensor([[first, -1.0], [first + 10.0, -1.0]])[:, 0]


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    added, everywhere, sent = strided(float(rank)), strided(float(rank)), strided(1.0 - rank)
    scattered = strided(-5.0)
    distributed.reduce(added, 0)
    distributed.all_reduce(everywhere)
    distributed.scatter(scattered, [strided(3.0), strided(4.0)] if rank == 0 else None, 0)
    distributed.broadcast(sent, 1)
    if rank == 0:
        expected, actual = (
            [[1, 21], [1, 21], [3, 13], [0, 10]],
            [added.tolist(), everywhere.tolist(), scattered.tolist(), sent.tolist()],
        )
        print(f"expected {expected}, actual {actual} of reduce, all_reduce, scatter and broadcast")
        sys.exit(actual == expected)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
