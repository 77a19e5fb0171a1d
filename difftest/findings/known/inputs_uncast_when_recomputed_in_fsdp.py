"""A module that is computed again in the backward pass is given inputs that `fully_shard` does not cast.

Its policy casts them to bfloat16 in the forward pass. torch 2.9.0. The process group is torch's fake one.
"""

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import checkpoint

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, output_dtype=torch.float32)
model = nn.Linear(4, 4)
fully_shard(model, mesh=init_device_mesh("cpu", (2,)), mp_policy=policy)
x = torch.ones(1, 4, requires_grad=True)
checkpoint(model, x, use_reentrant=False).sum().backward()
