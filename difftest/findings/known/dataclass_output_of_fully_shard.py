"""FSDP2 does not reduce the gradients of a model that returns a dataclass, and no update moves its parameters.

`fully_shard` looks for the tensors of an output by `torch.utils._pytree`, which knows no dataclasses. Without a
word the hook is left out that runs ahead of the backward pass. torch 2.9.0. The process group is torch's fake one.
"""

import sys
from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore


@dataclass
class Output:
    sample: Tensor


class Model(nn.Linear):
    def forward(self, x):
        return Output(super().forward(x))


distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
model = fully_shard(Model(4, 4), mesh=init_device_mesh("cpu", (2,)))
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
before = model.weight.to_local().clone()
model(torch.ones(2, 4)).sample.sum().backward()
optimizer.step()
moved = not torch.equal(optimizer.param_groups[0]["params"][0].to_local(), before)
print("expected: the weight moves; it", "does" if moved else "does not")
sys.exit(moved)
