"""DTensor: the sum and the mean of a partial maximum are those of each rank's own maxima.

The gradient is right, so that the loss alone is wrong. torch 2.9.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

RANKS = 2


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    x = torch.tensor([[1.0, 9.0], [9.0, 1.0]])
    whole, pieces = x.clone().requires_grad_(), distribute_tensor(x, mesh, [Shard(0)]).requires_grad_()
    results = []
    for each in (whole, pieces):
        loss = each.amax(0).mean()
        loss = loss.full_tensor() if each is pieces else loss
        loss.backward()
        results.append(loss.item())
    gradient = pieces.grad.full_tensor()
    distributed.destroy_process_group()
    if rank == 0:
        print(f"amax(0).mean(): expected {results[0]}, actual {results[1]}")
        print(f"gradient: expected {whole.grad.tolist()}, actual {gradient.tolist()}")
    sys.exit(results[0] == results[1])


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), RANKS)
