"""`fully_shard` of a list does not gather parameters again for a module of it that is called by itself.

A loss of pieces does so, which calls a head several times. torch 2.9.0. The process group is torch's fake one.
"""

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore


class Model(nn.Module):
    """Its head is called with pieces of what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.LayerNorm(4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh, model = init_device_mesh("cpu", (2,)), Model()
fully_shard([model.norm, model.head], mesh=mesh)
fully_shard(model, mesh=mesh)
hidden = model(torch.ones(2, 4))
pieces = hidden.detach().requires_grad_()
for piece in pieces.chunk(2):
    model.head(piece).sum().backward()
hidden.backward(pieces.grad)
