"""DDP with a static graph: gradients are not averaged where a loss has a gradient in it.

torch 2.9.0, silent. The backward pass of `torch.autograd.grad` counts as that of the first iteration.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    model = DistributedDataParallel(inner, static_graph=True)
    inputs = torch.full((1, 4), rank + 1.0, requires_grad=True)
    output = model(inputs)
    (slope,) = torch.autograd.grad(output.sum(), inputs, create_graph=True)
    (output.square().sum() + slope.square().sum()).backward()
    own = inner[0].weight.grad[0, 0].item()
    actual = [0.0, 0.0]
    distributed.all_gather_object(actual, own)
    if rank == 0:
        print(f"expected the same gradient on both ranks, actual {actual}")
        sys.exit(int(actual[0] == actual[1]))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
