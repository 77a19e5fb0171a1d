"""The gradient of `copysign` for its second argument is a plain `torch.Tensor`.

Exits 0 while the fault is there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def whole(tensor: torch.Tensor) -> DTensor:
    return distribute_tensor(tensor, mesh, [Replicate()])


def copysign() -> str:
    sign = whole(torch.rand(4)).requires_grad_()
    torch.copysign(whole(torch.rand(4)), sign).sum().backward()
    return f"a {type(sign.grad).__name__}"


actual = str(copysign())
print(f"expected a DTensor, actual {actual[:300]!r}")
sys.exit("a Tensor" not in actual)
