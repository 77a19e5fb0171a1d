"""The gradient of `sgn` is a plain `torch.Tensor`, whatever the placement.

torch 2.9.0. Nothing is sharded; the process group is torch's fake one. Exits 0 while the fault is there.
"""

import sys

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


MIXED = "got mixed torch.Tensor and DTensor"
actual = str(gradient(torch.sgn(x := of(4)), x))
print(f"expected a DTensor, actual {actual[:160]!r}")
sys.exit(not (MIXED in actual or actual == "Tensor"))
