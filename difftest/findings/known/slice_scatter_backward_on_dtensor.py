"""The gradient of `slice_scatter` fails with `got mixed torch.Tensor and DTensor`.

torch 2.9.0. Nothing is sharded; the process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def place(tensor: torch.Tensor) -> DTensor:
    return distribute_tensor(tensor, mesh, [Replicate()]).requires_grad_(tensor.is_floating_point())


def of(*shape: int) -> DTensor:
    return place(torch.rand(shape))


def gradient(result: torch.Tensor, tensor: DTensor | None = None) -> str:
    result.sum().backward()
    return type(tensor.grad).__name__ if tensor is not None else ""


print("expected a DTensor, actual", gradient(torch.slice_scatter(of(4, 4), of(2, 4), 0, 0, 2)))
