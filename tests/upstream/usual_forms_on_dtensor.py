"""Usual forms of a program for which DTensor has no rule: `mse_loss`, and `!=` between tensors.

torch 2.9.0. `==` and the loss written out have rules. The process group is torch's fake one. A name runs one
form alone. Exits 0 when all faults are there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def cut() -> DTensor:
    return distribute_tensor(torch.rand(4, 3), mesh, [Shard(0)])


print(cut() == cut(), (cut() - cut()).square().mean())
FAULTS = {
    "mse_loss": (lambda: functional.mse_loss(cut(), cut()), "aten.mse_loss.default"),
    "unequal": (lambda: cut() != cut(), "aten.ne.Tensor"),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    call, operator = FAULTS[name]
    try:
        print(f"{name}: expected a result, actual {call()}")
        missing.append(name)
    except (NotImplementedError, RuntimeError) as error:
        print(f"{name}: expected a result, actual {type(error).__name__}: {str(error)[:160]!r}")
        missing += [] if operator in str(error) else [name]
sys.exit(f"not there: {missing}" if missing else 0)
