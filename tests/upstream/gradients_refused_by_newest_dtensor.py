"""Operators and gradients of DTensors that fail; names select. Exits 0 if all faults are there.

torch 2.15.0. The process group is torch's fake one.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.functional import conv1d, ctc_loss
from torch.nn.functional import group_norm as norm
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def whole(*shape: int) -> DTensor:
    return distribute_tensor(torch.rand(shape) + 3, mesh, [Replicate()]).requires_grad_()


def cut(dim: int, *shape: int) -> DTensor:
    return distribute_tensor(torch.rand(shape), mesh, [Shard(dim)]).requires_grad_()


TARGETS = distribute_tensor(torch.ones(1, 2, dtype=torch.int64), mesh, [Replicate()])
MIXED = "got mixed torch.Tensor and DTensor"
FAULTS = {
    "conv1d": (lambda: conv1d(*[cut(1, 2, 4, 8)] * 2, padding=1).sum().backward(), "IndexError: tuple"),
    "ctc_loss": (lambda: ctc_loss(whole(5, 1, 4), TARGETS, (5,), (2,)), "aten._ctc_loss.default"),
    "group_norm": (
        lambda: norm(whole(2, 6, 5), 2, whole(6).detach(), whole(6)).sum().backward(),
        "does not equal the number of op outputs",
    ),
    "group_norm_of_shards": (
        lambda: norm(cut(0, 4, 6, 5), 3, cut(0, 6), cut(0, 6)).sum().backward(),
        "Expected dY.numel() == N * C * HxW",
    ),
    "view_copy": (lambda: torch.view_copy(cut(0, 50, 5), (5, -1)), "is invalid for input of size"),
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
