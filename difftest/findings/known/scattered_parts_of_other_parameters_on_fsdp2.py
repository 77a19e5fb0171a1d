"""FSDP2: gradients that wait for their sum over replicas are added to those of other parameters.

With `set_requires_all_reduce(False)` a part of a batch is reduced within the shards alone, into one buffer, which
is added to that of the next part. If the parts use other parameters of a group the buffers have other contents:
gradients mix, and where the sizes differ it raises. torch 2.9.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)

    def forward(self, x: torch.Tensor, part: str) -> torch.Tensor:
        return self.get_submodule(part)(x)


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = Model()
    fully_shard(model, mesh=init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard")))
    for part, number in (("first", 1.0), ("second", 4.0)):
        model.set_requires_all_reduce(part == "second")
        model(torch.full((1, 1), number), part).sum().backward()
    actual = [one.grad.full_tensor().item() if one.grad is not None else None for one in model.parameters()]
    print(f"rank {rank}: expected gradients of [1.0, 4.0], actual {actual}")
    sys.exit(actual == [1.0, 4.0])


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
