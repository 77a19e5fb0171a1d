"""Operators that fail although DTensor has rules for them; names select. Exits 0 if all faults are there."""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh, NUMBERS = init_device_mesh("cpu", (2,)), torch.rand(4, 3)


def cut(tensor: torch.Tensor, dim: int = 0) -> DTensor:
    return distribute_tensor(tensor, mesh, [Shard(dim)])


def whole(tensor: torch.Tensor) -> DTensor:
    return distribute_tensor(tensor, mesh, [Replicate()])


def max_unpool() -> DTensor:
    pooled, indices = functional.max_pool2d(torch.rand(1, 4, 4), 2, return_indices=True)
    rows = DTensor.from_local(indices[:, :1], mesh, [Shard(1)])
    return functional.max_unpool2d(cut(pooled, 1), rows, 2).full_tensor()


def copysign() -> str:
    sign = whole(torch.rand(4)).requires_grad_()
    torch.copysign(whole(torch.rand(4)), sign).sum().backward()
    return f"a {type(sign.grad).__name__}"


def solve() -> DTensor:
    return torch.linalg.solve(cut(torch.rand(4, 3, 3)), whole(torch.rand(3, 2)))


FAULTS = {
    "max_unpool": (max_unpool, "changed concrete size"),
    "solve": (solve, "Incompatible shapes"),
    "rms_norm": (lambda: functional.rms_norm(cut(torch.rand(2, 4), 1), (4,)), "in-place operations"),
    "cross": (lambda: torch.linalg.cross(cut(NUMBERS[:1]), cut(torch.rand(5, 3))), "must match the size"),
    "fft_of_maximum": (lambda: torch.fft.rfft(cut(NUMBERS).amax(0)).full_tensor(), "INTERNAL ASSERT"),
    "update": (lambda: cut(torch.rand(1, 4)).add_(whole(torch.rand(1, 4))), "in-place operations"),
    "clamp": (lambda: DTensor.from_local(NUMBERS, mesh, [Partial()]).clamp_(max=0.1), "in-place operations"),
    "heads": (lambda: cut(torch.rand(4, 6), 1).unflatten(1, (3, 2)), "Cannot unflatten unevenly"),
    "copysign": (copysign, "a Tensor"),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    call, fault = FAULTS[name]
    try:
        actual = str(call())
    except RuntimeError as error:
        actual = f"{type(error).__name__}: {error}"
    print(f"{name}: expected a DTensor, actual {actual[:300]!r}")
    missing += [] if fault in actual else [name]
sys.exit(f"not there: {missing}" if missing else 0)
