"""`index_select` along a negative dim fails.

torch 2.9.0. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def whole(*shape: int) -> DTensor:
    return distribute_tensor(torch.rand(shape), mesh, [Replicate()]).requires_grad_()


def index_select() -> None:
    index = distribute_tensor(torch.tensor([0]), mesh, [Replicate()])
    whole(4, 4).index_select(-1, index)


print("expected a result, actual", index_select())
