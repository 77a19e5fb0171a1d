"""DTensor: two sharded embeddings of equal shape share one mask, and the second fails where its tokens differ.

torch 2.9.0 and 2.15.0 on the CPU. A model with tables of tokens and of positions of one size, as a small BERT, does this.
The process group is torch's fake one: nothing is communicated before the failure.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
tokens, positions = (distribute_tensor(torch.rand(8, 4), mesh, [Shard(0)]) for _ in range(2))
first = distribute_tensor(torch.tensor([[7, 0, 3]]), mesh, [Replicate()])
second = distribute_tensor(torch.tensor([[0, 5, 2]]), mesh, [Replicate()])
total = functional.embedding(first, tokens) + functional.embedding(second, positions)
print("expected the sum of two embeddings, actual", total.shape)
