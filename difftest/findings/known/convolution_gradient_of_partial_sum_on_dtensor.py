"""DTensor: the backward pass of a convolution of a partial sum fails.

It redistributes the gradient of the output to the placements of the input, and `redistribute` takes no partial
sum. The forward pass takes the input's sum.
"""

import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    inputs = DTensor.from_local(torch.ones(1, 1, 4, 4), mesh, [Partial()]).requires_grad_()
    weight = DTensor.from_local(torch.ones(1, 1, 1, 1), mesh, [Replicate()])
    bias = DTensor.from_local(torch.ones(1), mesh, [Replicate()])
    torch.nn.functional.conv2d(inputs, weight, bias, padding="same").full_tensor().sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
