"""The gradient of weight normalization has no sharding rule.

torch 2.15.0, the second of two ranks of torch's fake process group.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_module, distribute_tensor
from torch.nn.utils.parametrizations import weight_norm as normalized
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh = init_device_mesh("cpu", (2,))
NUMBERS = torch.rand(4, 3)


def whole(tensor: torch.Tensor) -> DTensor:
    return distribute_tensor(tensor, mesh, [Replicate()])


def weight_norm() -> None:
    distribute_module(normalized(torch.nn.Linear(3, 2)), mesh)(whole(NUMBERS)).sum().backward()


print("expected a DTensor, actual", weight_norm())
