"""DTensor has no sharding rule for `tensor[:, 0] = number`, by which encoder-decoders shift their tokens.

torch 2.9.0 on the CPU. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
tokens = distribute_tensor(torch.ones(4, 6, dtype=torch.int64), mesh, [Replicate()])
tokens[:, 0] = 2
print("expected tokens with a 2 in front, actual", tokens)
