"""Functional collectives with autograd: a gradient that goes through a gradient is wrong.

torch 2.9.0, with a warning alone. The collective of the backward pass has no gradient, and counts as the
identity. `torch.distributed.nn` is right.
"""

import sys
import tempfile
import warnings

import torch
from torch import Tensor, distributed, multiprocessing
from torch.distributed._functional_collectives import all_gather_tensor_autograd
from torch.distributed.nn.functional import all_gather

warnings.simplefilter("ignore")


def gradient(gathered: Tensor, values: Tensor) -> Tensor:
    (slope,) = torch.autograd.grad(gathered.pow(3).sum(), values, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.square().sum(), values)
    return curvature


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    values = torch.full((2,), rank + 1.0, requires_grad=True)
    expected = gradient(torch.cat(all_gather(values)), values)
    actual = gradient(all_gather_tensor_autograd(values, 0, distributed.group.WORLD) + 0, values)
    if rank == 0:
        print(f"expected {expected.tolist()}, actual {actual.tolist()}")
        sys.exit(int(torch.allclose(expected, actual)))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
