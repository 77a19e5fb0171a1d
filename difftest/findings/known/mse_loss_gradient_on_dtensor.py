"""Gradients of `mse_loss`, `smooth_l1_loss`, `huber_loss` and `binary_cross_entropy` are multiplied by the
number of ranks.

torch 2.15.0 over gloo. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.functional import mse_loss

ROWS = torch.arange(16.0).reshape(8, 2)


def gradient(to: object) -> torch.Tensor:
    guess = to(ROWS.clone()).requires_grad_()
    mse_loss(guess, to(torch.zeros(8, 2))).backward()
    return guess.grad


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=4)
    mesh = init_device_mesh("cpu", (4,))
    expected = gradient(lambda tensor: tensor)
    actual = gradient(lambda tensor: distribute_tensor(tensor, mesh, [Shard(0)])).full_tensor()
    print(f"expected {expected.tolist()}, actual {actual.tolist()} of {actual.dtype}")
    sys.exit(not (actual.dtype != expected.dtype or not torch.equal(actual, expected)))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 4)
