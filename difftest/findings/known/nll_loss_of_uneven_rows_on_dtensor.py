"""DTensor refuses the mean of `nll_loss` over rows that the ranks do not share evenly.

It computes the mean over the ranks' means, and so raises where that would be biased. One device takes any rows.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
output, targets = torch.zeros(29, 3), torch.zeros(29, dtype=torch.long)
print(torch.nn.functional.cross_entropy(output, targets))  # 1.0986
torch.nn.functional.cross_entropy(
    *(distribute_tensor(tensor, mesh, [Shard(0)]) for tensor in (output, targets))
)
