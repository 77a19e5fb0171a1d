"""DTensor's convolution takes every input for one whose last dim is cut; a name runs one fault alone.

Ranks add up and exchange what each of them has. torch 2.9.0. Exits 0 when all faults are there.
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


FAULTS = {
    "frozen_kernel": (Replicate(), lambda x, w, b: gradient(b, conv2d(x.detach(), w.detach(), b, stride=3))),
    "padded": (Shard(0), lambda x, w, b: conv2d(x, w, b, padding=1)),
    "bias_gradient": (Replicate(), lambda x, w, b: gradient(b, conv2d(x.detach(), w, b, stride=3))),
    "input_gradient": (Shard(3), lambda x, w, b: gradient(x, conv2d(x, w, b, padding=1))),
}


def main(rank: int, rendezvous: str, names: list[str]) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh, missing = init_device_mesh("cpu", (2,)), []
    for name in names:
        placement, call = FAULTS[name]
        expected = call(*(tensor.clone().requires_grad_() for tensor in TENSORS)).sum().item()
        placed = map(distribute_tensor, TENSORS, [mesh] * 3, ([placement], [Replicate()], [Replicate()]))
        try:
            actual = call(*(tensor.requires_grad_() for tensor in placed)).full_tensor().sum().item()
        except (AssertionError, ValueError) as error:
            actual = f"{type(error).__name__}: {error}"
        print(f"{name}: expected {expected}, actual {actual}")
        missing += [name] if actual == expected else []
    sys.exit(f"not there: {missing}" if missing else 0)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(), sys.argv[1:] or list(FAULTS)), 2)
