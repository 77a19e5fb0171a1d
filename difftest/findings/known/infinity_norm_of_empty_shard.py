"""Clipping gradients by their infinity norm fails on a rank whose shard of a parameter is empty.

So `fully_shard` cannot train a parameter with fewer rows than ranks with `norm_type=inf`; norms of finite
order work. torch on the CPU, with its fake process group; this is rank 1. Exits 0 when the fault is there.
"""

import math
import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
row = distribute_tensor(torch.ones(1, 3), init_device_mesh("cpu", (2,)), [Shard(0)]).requires_grad_()
row.grad = row.detach().clone()
for order in (2.0, math.inf):
    try:
        actual = type(torch.nn.utils.clip_grad_norm_([row], 1.0, order)).__name__
    except RuntimeError as error:
        actual = f"RuntimeError: {error}"
    print(f"order {order}: expected DTensor, actual {actual}")
sys.exit(0 if "empty tensor" in actual else 1)
