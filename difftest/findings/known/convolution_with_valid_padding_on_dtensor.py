"""A convolution with `padding='valid'` raises IndexError.

Torch 2.9.0.
"""

import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, distribute_tensor


def valid_padding(mesh: DeviceMesh) -> object:
    images, kernel, bias = (torch.ones(s) for s in ((1, 2, 4, 4), (1, 2, 2, 2), (1,)))
    place = [distribute_tensor(one, mesh, [Replicate()]) for one in (images, kernel, bias)]
    return torch.nn.functional.conv2d(*place, padding="valid")


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    print("expected a DTensor, actual", valid_padding(mesh))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
