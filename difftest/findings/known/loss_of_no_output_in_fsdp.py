"""FSDP2: a loss of what a module keeps, and not of its output, cannot be differentiated.

torch 2.9.0 over gloo. Only the gradient of an output gathers the parameters for the backward pass.
"""

import tempfile

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        self.kept = self.first(x).tanh()
        return self.second(self.kept)


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model, mesh = nn.Sequential(Block(), Block()), init_device_mesh("cpu", (2,))
    for module in (*model, model):
        fully_shard(module, mesh=mesh)
    model(torch.ones(2, 4))
    model[1].kept.sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
