"""FSDP2: parameters are not gathered for the backward pass of a module that gives a view which is changed in place.

torch 2.9.0 over gloo. The change replaces the view's place in the graph, with the hook that gathers.
"""

import tempfile

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Viewing(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).unsqueeze(0).squeeze(0)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Viewing(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        result = self.inner(x)
        result += x
        return result


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model, mesh = nn.Sequential(nn.Linear(4, 4), Residual()), init_device_mesh("cpu", (2,))
    fully_shard(model[1].inner, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model(torch.ones(2, 4)).sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
