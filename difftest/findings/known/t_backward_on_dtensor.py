"""The gradient of `t_` fails: it is not transposed.

torch 2.15.0; torch 2.9.0 computes the first two. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def whole(*shape: int) -> DTensor:
    return distribute_tensor(torch.rand(shape), mesh, [Replicate()])


def of(*shape: int) -> DTensor:
    return whole(*shape).requires_grad_()


print("expected a result, actual", (of(2, 1) * 1).t_().sum().backward())
