"""The output of a row-sharded embedding can be used only once.

The output is a partial sum with a mask of the rows that other ranks hold. The mask has the shape of the
lookup, and it is released when the sum is first computed. A linear layer flattens the sum, and not the mask.
torch 2.9.0 and 2.15.0, one of two ranks of torch's fake process group.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh = init_device_mesh("cpu", (2,))
tokens = distribute_tensor(torch.arange(8).reshape(2, 4), mesh, [Replicate()])


def call(output):
    return output.relu() + output.relu()


rows = distribute_tensor(torch.rand(8, 3), mesh, [Shard(0)])
print("expected torch.Size([2, 4, 3]), actual", call(functional.embedding(tokens, rows)).shape)
