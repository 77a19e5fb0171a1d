"""DTensor sums up shares of a maximum as if they were values, and adds shares of a sum to those of a mean.

A maximum over a cut dim leaves the one, a mean the other, and a product over cut dims a sum. torch 2.9.0, silent.
Exits 0 while the faults are there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    shares = torch.tensor(
        [[4.0, 0.0], [0.0, 2.0]][rank]
    )  # the greatest are [4, 2], the mean [2, 1], the sum [4, 2]
    greatest, mean, summed = (DTensor.from_local(shares, mesh, [Partial(by)]) for by in ("max", "avg", "sum"))
    actual = [greatest.sum().full_tensor().item(), (mean + summed).full_tensor().sum().item()]
    distributed.destroy_process_group()
    if rank == 0:
        print(f"sum of the greatest, and of mean + sum: expected [6.0, 9.0], actual {actual}")
        sys.exit(int(actual == [6.0, 9.0]))


if __name__ == "__main__":
    try:
        multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
    except multiprocessing.ProcessExitedException:
        sys.exit(1)
