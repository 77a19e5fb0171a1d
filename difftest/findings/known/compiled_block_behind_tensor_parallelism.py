"""A compiled block behind a tensor-parallel layer: the backward pass fails.

The output of the layer is still on its way (`AsyncCollectiveTensor`) as the block is traced, and the block gives
back a plain gradient where the layer waits for a DTensor. torchtitan compiles blocks one by one. Not there in
torch 2.9.0.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Block(nn.Sequential):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + super().forward(inputs)


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    model = nn.Sequential(nn.Linear(6, 8), Block(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)))
    first = RowwiseParallel(input_layouts=Replicate())
    parallelize_module(model, mesh, {"0": first, "1.0": ColwiseParallel(), "1.2": RowwiseParallel()})
    model[1].compile(backend="aot_eager")
    model(torch.ones(4, 6)).sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
