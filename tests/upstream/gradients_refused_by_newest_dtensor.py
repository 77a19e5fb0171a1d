"""Operators and gradients of DTensors that fail; names select. Exits 0 if all faults are there.

torch 2.15.0. The process group is torch's fake one.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def whole(*shape: int) -> DTensor:
    return distribute_tensor(torch.rand(shape) + 3, mesh, [Replicate()]).requires_grad_()


def group_norm() -> None:
    torch.nn.functional.group_norm(whole(2, 6, 5), 2, whole(6).detach(), whole(6)).sum().backward()


def conv1d() -> None:
    cut = (distribute_tensor(torch.rand(2, 4, 8), mesh, [Shard(1)]).requires_grad_() for _ in range(2))
    torch.conv1d(*cut, padding=1).sum().backward()


def view_copy() -> DTensor:
    rows = distribute_tensor(torch.rand(50, 5), mesh, [Shard(0)])
    return torch.view_copy(rows, (5, -1))


MIXED = "got mixed torch.Tensor and DTensor"
FAULTS = {
    "conv1d": (conv1d, "IndexError: tuple index out of range"),  # looks for the kernel's fourth dim
    "group_norm": (group_norm, "does not equal the number of op outputs"),
    "view_copy": (view_copy, "is invalid for input of size"),
    "nanquantile": (
        lambda: torch.nanquantile(whole(3, 2, 1, 2), 0.5, dim=0, keepdim=True).sum().backward(),
        "invalid gradient",
    ),
    "trace": (lambda: torch.trace(whole(3, 3)).backward(), MIXED),
    "mvlgamma": (lambda: torch.mvlgamma(whole(5, 5), 3).sum().backward(), MIXED),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    call, fault = FAULTS[name]
    try:
        actual = str(call())
    except (IndexError, RuntimeError) as error:
        actual = f"{type(error).__name__}: {error}"
    print(f"{name}: expected a result, actual {actual[:300]!r}")
    missing += [] if fault in actual else [name]
sys.exit(f"not there: {missing}" if missing else 0)
