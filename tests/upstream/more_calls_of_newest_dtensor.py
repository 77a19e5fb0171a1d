"""Convolutions, gradients of squeeze_ and polar, Rprop and expand fail on DTensors; names select.

torch 2.15.0. The process group is torch's fake one. Exits 0 if all faults are there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.functional import conv2d
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh, grid = init_device_mesh("cpu", (4,)), init_device_mesh("cpu", (2, 2))


def of(*shape: int, on: DeviceMesh = mesh) -> DTensor:
    return distribute_tensor(torch.rand(shape), on, [Replicate()] * on.ndim).requires_grad_()


def rprop() -> None:
    weight = of(4, 3)
    weight.grad = DTensor.from_local(torch.rand(4, 3), mesh, [Partial()])
    torch.optim.Rprop([weight]).step()


def convolution(*placements: Shard | Replicate) -> DTensor:
    images = distribute_tensor(torch.rand(4, 3, 8, 8), grid, placements)
    return conv2d(images, of(6, 3, 3, 3, on=grid), of(6, on=grid))


FAULTS = {
    "first_layer": (
        lambda: convolution(Shard(0), Replicate()).sum().backward(),
        "strategy position 0 mixes None with placements across mesh dims",
    ),
    "squeeze_": (
        lambda: (of(4, 1, 4) * 1).squeeze_(1).sum().backward(),
        "returned an invalid gradient at index 0 - got [4, 1, 1, 4]",
    ),
    "polar": (
        lambda: torch.view_as_real(torch.polar(of(4), of(4))).sum().backward(),
        "unhashable type: 'complex'",
    ),
    "rprop": (rprop, "aten.masked_fill_.Scalar: in-place operations that require placement changes"),
    "two_axes": (lambda: convolution(Shard(0), Shard(0)), "does not support things like hybrid sharding"),
    "expand": (lambda: distribute_tensor(torch.rand(4, 1), mesh, [Shard(1)]).expand(4, 0), "RuntimeError: 1"),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    call, fault = FAULTS[name]
    try:
        actual = str(call())
    except (AssertionError, RuntimeError, ValueError) as error:
        actual = f"{type(error).__name__}: {error}"
    print(f"{name}: expected a result, actual {actual[:160]!r}")
    missing += [] if fault in actual else [name]
sys.exit(f"not there: {missing}" if missing else 0)
