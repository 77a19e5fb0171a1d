"""DTensor's convolution takes every input for one whose last dim is cut; a name runs one fault alone.

torch 2.9.0. With padding, ranks exchange columns though each has all of them. Gradients of weight and bias
are partial sums though each rank has all rows. Exits 0 when all faults are there.
"""

import sys
import tempfile

import torch
from torch import Tensor, distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.functional import conv2d

IMAGES, KERNEL, BIAS = torch.arange(72.0).view(2, 1, 6, 6), torch.ones(1, 1, 3, 3), torch.zeros(1)


def gradient(of: Tensor, result: Tensor) -> Tensor:
    result.sum().backward()
    return torch.tensor(torch.nan) if of.grad is None else of.grad


FAULTS = {
    "frozen_kernel": (Replicate(), lambda x, w, b: gradient(b, conv2d(x, w, b, stride=3))),
    "padded": (Shard(0), lambda x, w, b: conv2d(x, w, b, padding=1)),
    "bias_gradient": (Replicate(), lambda x, w, b: gradient(b, conv2d(x, w.requires_grad_(), b, stride=3))),
    "input_gradient": (
        Shard(3),
        lambda x, w, b: gradient(x.requires_grad_(), conv2d(x, w.requires_grad_(), b, padding=1)),
    ),
}


def main(rank: int, rendezvous: str, names: list[str]) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh, missing = init_device_mesh("cpu", (2,)), []
    for name in names:
        placement, call = FAULTS[name]
        expected = call(IMAGES.clone(), KERNEL.clone(), BIAS.clone().requires_grad_()).sum().item()
        tensors = ((IMAGES, placement), (KERNEL, Replicate()), (BIAS, Replicate()))
        x, w, b = (distribute_tensor(tensor, mesh, [to]) for tensor, to in tensors)
        try:
            result = call(x, w, b.requires_grad_())
            actual = (result.full_tensor() if isinstance(result, DTensor) else result).sum().item()
        except (AssertionError, ValueError) as error:
            actual = f"{type(error).__name__}: {error}"
        print(f"{name}: expected {expected}, actual {actual}")
        missing += [name] if actual == expected else []
    sys.exit(f"not there: {missing}" if missing else 0)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(), sys.argv[1:] or list(FAULTS)), 2)
