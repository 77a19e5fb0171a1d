"""Fused SGD does not update DTensors, as `fully_shard` makes parameters: there is no rule for `_fused_sgd_`.

torch 2.9.0 and 2.15.0. The process group is torch's fake one. Exits 0 while the fault is there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
model = fully_shard(torch.nn.Linear(4, 4), mesh=init_device_mesh("cpu", (2,)))
optimizer = torch.optim.SGD(model.parameters(), fused=True)
model(torch.rand(2, 4)).sum().backward()
try:
    optimizer.step()
    actual = "a step"
except (AssertionError, NotImplementedError) as error:
    actual = f"{type(error).__name__}: {error}"
print(f"expected a step, actual {actual}")
sys.exit(0 if "_fused_sgd_" in actual else 1)
