"""A fused optimizer of DTensors does not update state that is placed in another way than its parameter.

DTensor gives the operator a copy of the state with the parameter's placement, and drops it. The process group
is torch's fake one. torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def of(local: torch.Tensor, placement: Placement) -> list[DTensor]:
    return [DTensor.from_local(local, mesh, [placement])]


def average(rows: int, placement: Placement) -> list[float]:
    """The rank's average of gradients, first ones, after a step of AdamW with a gradient of zeros."""
    parameter, gradient, squares = (of(torch.zeros(2), Shard(0)) for _ in range(3))
    state, step = of(torch.ones(rows), placement), of(torch.ones(()), Replicate())
    options = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}
    flags = {"amsgrad": False, "maximize": False}
    torch._fused_adamw_(parameter, gradient, state, squares, [], step, **options, **flags)
    return state[0].to_local()[:2].tolist()


expected, actual = average(2, Shard(0)), average(4, Replicate())
print(f"expected {expected}, actual {actual}")
sys.exit(0 if actual == [1.0, 1.0] != expected else 1)
