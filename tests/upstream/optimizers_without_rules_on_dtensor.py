"""Rprop with `foreach` and fused SGD do not update DTensors, as `fully_shard` makes parameters; names select.

DTensor has no rule for the operators of their steps. torch 2.9.0 and 2.15.0. The process group is torch's
fake one. Exits 0 while the faults are there.
"""

import sys

import torch
from torch import distributed, optim
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
FAULTS = {
    "fused_sgd": (lambda parameters: optim.SGD(parameters, fused=True), "_fused_sgd_"),
    "rprop": (lambda parameters: optim.Rprop(parameters, foreach=True), "_foreach_copy_"),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    make, operator = FAULTS[name]
    model = fully_shard(torch.nn.Linear(4, 4), mesh=mesh)
    optimizer = make(model.parameters())
    model(torch.rand(2, 4)).sum().backward()
    try:
        optimizer.step()
        actual = "a step"
    except (AssertionError, NotImplementedError) as error:
        actual = f"{type(error).__name__}: {error}"
    print(f"{name}: expected a step, actual {actual}")
    missing += [] if operator in actual else [name]
sys.exit(f"not there: {missing}" if missing else 0)
