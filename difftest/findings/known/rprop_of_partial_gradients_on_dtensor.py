"""`Rprop` fails where a gradient is a partial sum: it writes zeros into it.

torch 2.15.0. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh = init_device_mesh("cpu", (4,))


def of(*shape: int, on: DeviceMesh = mesh) -> DTensor:
    return distribute_tensor(torch.rand(shape), on, [Replicate()] * on.ndim).requires_grad_()


def rprop() -> None:
    weight = of(4, 3)
    weight.grad = DTensor.from_local(torch.rand(4, 3), mesh, [Partial()])
    torch.optim.Rprop([weight]).step()


print("expected a result, actual", rprop())
