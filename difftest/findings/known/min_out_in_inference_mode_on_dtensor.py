"""`max` and `min` of two tensors with `out` fail under `inference_mode`.

torch 2.9.0 and 2.15.0. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
numbers, result = (distribute_tensor(torch.rand(2, 3, 4), mesh, [Replicate()]) for _ in range(2))
table = distribute_tensor(torch.rand(6, 4), mesh, [Shard(0)])


def call():
    return torch.min(numbers, numbers, out=result)


call().full_tensor()
with torch.inference_mode():
    made = call()
made.full_tensor()
print("expected a result, actual a result")
