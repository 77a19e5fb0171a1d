"""A convolution with a sharded weight fails on the shape of its bias.

torch 2.9.0. The second of two ranks of torch's fake process group.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.nn.functional import conv2d
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
line, WHOLE = init_device_mesh("cpu", (2,)), Replicate()


def of(*shape: int, to: Placement) -> DTensor:
    return distribute_tensor(torch.rand(shape), line, [to])


def local(result: torch.Tensor) -> str:
    """The placements of a result, and the shape that this rank holds."""
    return f"{' '.join(map(str, result.placements))} {tuple(result.to_local().shape)}"


def convolution() -> torch.Tensor:
    return conv2d(of(1, 2, 4, 4, to=WHOLE), of(4, 2, 2, 2, to=Shard(0)), of(4, to=WHOLE), stride=2)


print("expected R (1, 4, 2, 2), actual", local(convolution()))
