"""The backward pass fails if one of several modules that `fully_shard` wraps together is used again before it.

torch 2.9.0 and 2.15.0. The process group is torch's fake one.
"""

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore


class Extra(nn.Linear):
    def forward(self, x: torch.Tensor, head: nn.Module) -> torch.Tensor:
        self.kept = head(super().forward(x))
        return x


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.extra, self.head = nn.RMSNorm(4), Extra(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.extra(self.norm(x), self.head))


distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh, model = init_device_mesh("cpu", (2,)), Model()
fully_shard([model.norm, model.extra, model.head], mesh=mesh)
fully_shard(model, mesh=mesh)
(model(torch.ones(1, 4)).sum() + model.extra.kept.sum()).backward()
