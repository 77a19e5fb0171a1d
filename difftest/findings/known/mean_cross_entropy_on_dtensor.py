"""Mean `cross_entropy` of a sharded batch averages the ranks' means, wrong with ignored targets or weights.

Torch divides by the sum of the weights of the targets that are not ignored. A DTensor divides on each rank by
that rank's sum, and averages: ranks with few targets left, as where texts are padded, count as much as
others. torch 2.9.0, two ranks. Exits 0 while the fault is there.
"""

import os
import sys

import torch
from torch import multiprocessing
from torch.distributed import device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn import functional

RANKS = 2
logits, targets = torch.arange(12.0).sin().reshape(4, 3), torch.tensor([0, 1, 0, 0])
CALLS = {
    "ignored": {"ignore_index": 1},
    "weighted": {"weight": torch.tensor([1.0, 3.0, 1.0])},
}


def main(rank: int, names: list[str]) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29617", RANK=str(rank), WORLD_SIZE=str(RANKS))
    mesh, missing = device_mesh.init_device_mesh("cpu", (RANKS,)), []
    placed = [distribute_tensor(tensor, mesh, [Shard(0)]) for tensor in (logits, targets)]
    for name in names:
        options = CALLS[name]
        whole = {
            key: distribute_tensor(value, mesh, [Replicate()]) if key == "weight" else value
            for key, value in options.items()
        }
        expected = functional.cross_entropy(logits, targets, **options)
        actual = functional.cross_entropy(*placed, **whole).full_tensor()
        if rank == 0:
            print(f"{name}: expected {expected:.6f}, actual {actual:.6f}")
        missing += [name] if torch.allclose(actual, expected) else []
    torch.distributed.destroy_process_group()
    sys.exit(f"not there: {missing}" if missing else 0)


if __name__ == "__main__":
    multiprocessing.spawn(main, (list(CALLS),), RANKS)
