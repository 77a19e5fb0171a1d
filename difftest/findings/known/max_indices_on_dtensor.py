"""`max` and `min` along a sharded dim give indices into the local shard.

torch 2.9.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

NUMBERS = torch.tensor([[1.0, 5.0, 3.0], [2.0, 8.0, 1.0], [9.0, 4.0, 7.0], [6.0, 0.0, 2.0], [3.0, 6.0, 8.0]])


def call(place):
    return place(NUMBERS).max(0).indices


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    expected = torch.as_tensor(call(lambda tensor: tensor.clone()))
    actual = call(lambda tensor: distribute_tensor(tensor, mesh, [Shard(0)]))
    actual = actual.full_tensor() if isinstance(actual, DTensor) else torch.as_tensor(actual)
    print(f"expected {expected.flatten()[-6:].tolist()}, actual {actual.flatten()[-6:].tolist()}")
    distributed.barrier()
    sys.exit(str(expected.tolist()) == str(actual.tolist()))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
