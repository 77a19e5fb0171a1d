"""DTensor takes operators whose names end in `__` for those in place: `x << y` and `x >> y` give x.

torch 2.9.0. In 2.15.0, where DTensor has rules for them, `&`, `|` and `^` in inference mode do too. The
process group is torch's fake one. Exits 0 when the fault is there.
"""

import operator
import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))

OPERATORS = {"<<": operator.lshift, ">>": operator.rshift, "&": operator.and_, "|": operator.or_}
wrong = []
for sign, call in OPERATORS.items():
    with torch.inference_mode():
        values = torch.tensor([5, 6, 7])
        placed = DTensor.from_local(values, mesh, [Replicate()])
        expected, actual = call(values, 1).tolist(), call(placed, 1).to_local().tolist()
    print(f"x {sign} 1: expected {expected}, actual {actual}")
    wrong += [sign] if actual != expected else []
sys.exit(0 if {"<<", ">>"} <= {*wrong} else f"not there: {wrong}")
