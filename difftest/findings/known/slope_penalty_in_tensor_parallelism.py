"""Tensor parallelism: the gradient of a penalty on a slope is wrong.

torch 2.9.0, silent. What `redistribute` does in a backward pass has no gradient itself, so that a part of the
second derivative is left out.
"""

import copy
import sys
import tempfile

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def gradient(model: nn.Module) -> Tensor:
    """Of the first weight, from the squared output and its squared slope along the inputs."""
    inputs = torch.linspace(-1, 1, 8, dtype=torch.float64).view(2, 4).requires_grad_()
    output = model(inputs)
    (slope,) = torch.autograd.grad(output.sum(), inputs, create_graph=True)
    (output.square().sum() + slope.square().sum()).backward()
    weight = model[0].weight.grad
    return weight.full_tensor() if hasattr(weight, "full_tensor") else weight


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)).double()
    expected = gradient(copy.deepcopy(model))
    styles = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    actual = gradient(parallelize_module(model, init_device_mesh("cpu", (2,)), styles))
    if rank == 0:
        print(f"expected {expected[0, 0]:.6f}, actual {actual[0, 0]:.6f}")
        sys.exit(int(torch.allclose(expected, actual)))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
