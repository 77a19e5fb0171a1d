"""`tensor_split` with a tensor of indices fails: it reads data that is not there.

torch 2.9.0. The second of two ranks of torch's fake process group.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
line, WHOLE = init_device_mesh("cpu", (2,)), Replicate()


def of(*shape: int, to: Placement) -> DTensor:
    return distribute_tensor(torch.rand(shape), line, [to])


def local(result: torch.Tensor) -> str:
    """The placements of a result, and the shape that this rank holds."""
    return f"{' '.join(map(str, result.placements))} {tuple(result.to_local().shape)}"


def tensor_split() -> torch.Tensor:
    return torch.tensor_split(of(4, to=WHOLE), distribute_tensor(torch.tensor([1]), line, [WHOLE]))[0]


print("expected R (1,), actual", local(tensor_split()))
