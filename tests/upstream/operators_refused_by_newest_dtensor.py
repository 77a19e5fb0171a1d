"""Operators that DTensor had refused in so many words, or did, and fails at now; names select.

torch 2.15.0, the second of two ranks of torch's fake process group. Exits 0 when all faults are there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm as normalized
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh, one_by_two = init_device_mesh("cpu", (2,)), init_device_mesh("cpu", (1, 2))
NUMBERS = torch.rand(4, 3)


def whole(tensor: torch.Tensor) -> DTensor:
    return distribute_tensor(tensor, mesh, [Replicate()])


def nanquantile() -> str:
    return f"one of shape {list(torch.nanquantile(whole(NUMBERS), 0.5).shape)} instead of []"


def pool() -> DTensor:
    return functional.avg_pool1d(distribute_tensor(NUMBERS[:1], mesh, [Shard(0)]), 2)


def row() -> DTensor:
    rows = distribute_tensor(torch.rand(1, 4, 3), one_by_two, [Shard(0), Replicate()])
    return functional.linear(rows, distribute_tensor(NUMBERS, one_by_two, [Replicate()] * 2))


def weight_norm() -> None:
    distribute_module(normalized(torch.nn.Linear(3, 2)), mesh)(whole(NUMBERS)).sum().backward()


FAULTS = {
    "nanquantile": (nanquantile, "of shape [1]"),
    "nonzero": (lambda: whole(NUMBERS).nonzero(), "RuntimeError: aten.nonzero.default"),
    "pool": (pool, "but got:[0, 1, 3]"),
    "row": (row, "would remove or reshape sharded dimension 0"),
    "weight_norm": (weight_norm, "aten._weight_norm_interface_backward.default"),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    call, fault = FAULTS[name]
    try:
        actual = str(call())
    except RuntimeError as error:
        actual = f"{type(error).__name__}: {error}"
    print(f"{name}: expected a DTensor, actual {actual[:160]!r}")
    missing += [] if fault in actual else [name]
sys.exit(f"not there: {missing}" if missing else 0)
