"""Losses of DTensors on four ranks that are wrong without a word; a name runs one alone.

torch 2.15.0 over gloo. Exits 0 when all faults are there.
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


FAULTS = {
    "gradient": gradient,
    "uneven": lambda to: mse_loss(to(ROWS[:7]), to(torch.zeros(7, 2))),
    "empty": lambda to: mse_loss(to(ROWS[:5]), to(torch.zeros(5, 2))),
}


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=4)
    mesh, there = init_device_mesh("cpu", (4,)), True
    for name in sys.argv[1:] or FAULTS:
        expected = FAULTS[name](lambda tensor: tensor)
        actual = FAULTS[name](lambda tensor: distribute_tensor(tensor, mesh, [Shard(0)])).full_tensor()
        print(f"{name}: expected {expected.tolist()}, actual {actual.tolist()} of {actual.dtype}")
        there &= actual.dtype != expected.dtype or not torch.equal(actual, expected)
    sys.exit(None if there else "not there")


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 4)
