"""The gradient of `repeat` or `tile` no times is a plain tensor for a DTensor, of any rank's own shape.

torch 2.9.0 and 2.15.0. The process group is torch's fake one. Exits 0 while the fault is there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
given = DTensor.from_local(torch.ones(1), mesh, [Shard(0)], run_check=False).requires_grad_()
repeated = given.repeat(0)
repeated.backward(torch.zeros_like(repeated))
actual = given.grad
print(f"expected a DTensor of {tuple(given.shape)}, actual {type(actual).__name__} of {tuple(actual.shape)}")
sys.exit(1 if isinstance(actual, DTensor) else 0)
