"""DTensor: the gradient of a convolution cannot be differentiated.

torch 2.9.0. The gradients that nothing asks for have no metadata in the rule of `convolution_backward`.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_module, distribute_tensor


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    model = distribute_module(nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Tanh()), mesh)
    images = distribute_tensor(torch.ones(2, 1, 4, 4), mesh, [Shard(0)]).requires_grad_()
    (slope,) = torch.autograd.grad(model(images), images, torch.ones_like(model(images)), create_graph=True)
    slope.square().sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
