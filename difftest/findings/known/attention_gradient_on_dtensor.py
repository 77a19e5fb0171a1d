"""`scaled_dot_product_attention` has no sharding rule for its gradient on the CPU.

torch 2.15.0. The group is a fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def images() -> DTensor:
    return distribute_tensor(torch.rand(2, 2, 4, 4), mesh, [Replicate()]).requires_grad_()


print("expected a result, actual", scaled_dot_product_attention(*[images()] * 3).sum().backward())
