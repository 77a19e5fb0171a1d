"""`nonzero`, `bincount` and others fail with nothing but their name as the message.

torch 2.15.0, the second of two ranks of torch's fake process group.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh = init_device_mesh("cpu", (2,))
NUMBERS = torch.rand(4, 3)


def whole(tensor: torch.Tensor) -> DTensor:
    return distribute_tensor(tensor, mesh, [Replicate()])


print("expected a DTensor, actual", whole(NUMBERS).nonzero())
