"""`nanquantile` of all elements has a dim too many.

torch 2.15.0, the second of two ranks of torch's fake process group. Exits 0 while the fault is there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh = init_device_mesh("cpu", (2,))
NUMBERS = torch.rand(4, 3)


def whole(tensor: torch.Tensor) -> DTensor:
    return distribute_tensor(tensor, mesh, [Replicate()])


def nanquantile() -> str:
    return f"one of shape {list(torch.nanquantile(whole(NUMBERS), 0.5).shape)} instead of []"


actual = str(nanquantile())
print(f"expected a DTensor, actual {actual[:160]!r}")
sys.exit("of shape [1]" not in actual)
