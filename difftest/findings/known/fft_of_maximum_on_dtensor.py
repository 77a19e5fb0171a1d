"""A Fourier transform of a partial maximum fails."""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh, NUMBERS = init_device_mesh("cpu", (2,)), torch.rand(4, 3)


def cut(tensor: torch.Tensor, dim: int = 0) -> DTensor:
    return distribute_tensor(tensor, mesh, [Shard(dim)])


print("expected a DTensor, actual", torch.fft.rfft(cut(NUMBERS).amax(0)).full_tensor())
