"""FSDP2: a layer that one rank alone uses in a step, as an expert, makes ranks reduce gradients of unequal sizes.

torch 2.9.0 and 2.15.0 over gloo, which aborts; NCCL adds other parameters' gradients. Fails by SIGABRT
"""

import tempfile

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor, both: bool) -> Tensor:
        return self.second(self.first(x)) if both else self.first(x)


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = fully_shard(Branch(), mesh=init_device_mesh("cpu", (2,)))
    model(torch.ones(2, 4), both=rank == 0).sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
