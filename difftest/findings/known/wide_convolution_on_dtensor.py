"""A convolution whose kernel is more than twice as wide as the image fails, even of replicated tensors.

torch 2.9.0. The process group is torch's fake one, which communicates nothing.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.nn.functional import conv2d
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def whole(*shape: int) -> DTensor:
    return distribute_tensor(torch.rand(shape), mesh, [Replicate()])


IMAGE, KERNEL, BIAS = whole(1, 3, 2, 2), whole(3, 3, 7, 7), whole(3)
print("expected a result, actual", conv2d(IMAGE, KERNEL, BIAS, padding=3))
