"""A linear layer refuses inputs of three dims whose batch is uneven.

torch 2.9.0 and 2.15.0. The layer flattens two of three dims. Over one mesh axis, DTensor refuses that. Over
two, it asks whether each axis alone divides the rows, and takes 45 rows of 48. The group is a fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)


def linear(rows: int, *mesh: int) -> torch.Tensor:
    devices = init_device_mesh("cpu", mesh)
    batch = distribute_tensor(torch.rand(rows, 12, 5), devices, [Shard(0)] * len(mesh))
    weight = distribute_tensor(torch.rand(6, 5), devices, [Replicate()] * len(mesh))
    return torch.nn.functional.linear(batch, weight)


print("expected the result of a linear layer, actual", linear(22, 8).shape)
