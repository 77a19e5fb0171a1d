"""`fully_shard` of a list with mixed precision casts the inputs of the module alone that is called first.

torch 2.9.0. The process group is torch's fake one.
"""

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore


class Wide(nn.Module):
    """Gives float32."""

    def forward(self, x: Tensor) -> Tensor:
        return x.float()


distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
model = nn.Sequential(nn.Linear(4, 4), Wide(), nn.Linear(4, 4))
mesh, policy = init_device_mesh("cpu", (2,)), MixedPrecisionPolicy(param_dtype=torch.bfloat16)
fully_shard([model[0], model[2]], mesh=mesh, mp_policy=policy)
fully_shard(model, mesh=mesh, mp_policy=policy)
model(torch.ones(1, 4))
