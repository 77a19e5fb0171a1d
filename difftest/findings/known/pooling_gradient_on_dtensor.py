"""`avg_pool2d` has no gradient: there is no rule for `avg_pool2d_backward`.

torch 2.15.0. The group is a fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.nn.functional import avg_pool2d
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def images() -> DTensor:
    return distribute_tensor(torch.rand(2, 2, 4, 4), mesh, [Replicate()]).requires_grad_()


print("expected a result, actual", avg_pool2d(images(), 2).sum().backward())
