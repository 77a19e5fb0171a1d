"""A padded convolution gives its input no gradient.

Ranks add up and exchange what each of them has. torch 2.9.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import Tensor, conv2d, distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

TENSORS = torch.arange(72.0).view(2, 1, 6, 6), torch.ones(1, 1, 3, 3), torch.zeros(1)


def gradient(of: Tensor, result: Tensor) -> Tensor:
    result.sum().backward()
    return of.detach() * torch.nan if of.grad is None else of.grad


def call(x, w, b):
    return gradient(x, conv2d(x, w, b, padding=1))


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    placement = Shard(3)
    expected = call(*(tensor.clone().requires_grad_() for tensor in TENSORS)).sum().item()
    placed = map(distribute_tensor, TENSORS, [mesh] * 3, ([placement], [Replicate()], [Replicate()]))
    actual = call(*(tensor.requires_grad_() for tensor in placed)).full_tensor().sum().item()
    print(f"expected {expected}, actual {actual}")
    sys.exit(actual == expected)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
