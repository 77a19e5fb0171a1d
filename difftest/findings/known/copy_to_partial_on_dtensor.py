"""What `copy_` writes to a partial sum is lost: the DTensor keeps the numbers that it had.

DTensor reduces both sums, and copies from one reduced tensor to the other. Autograd copies a gradient to new
memory where its strides are not the parameter's. A gradient that is sharded along one mesh axis and partial
along another, as of a transposed parameter, then keeps what was in that memory. torch 2.9.0; 2.15.0 copies.
One of two ranks of torch's fake process group. Exits 0 when the fault is there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (1, 2))

gradient = DTensor.from_local(torch.ones(3, 2).t(), mesh, [Shard(0), Partial()])
memory = gradient.new_empty_strided(gradient.shape, (3, 1))
memory.to_local().fill_(7.0)
memory.copy_(gradient)
actual = memory.to_local()
print(f"{memory.placements}: expected {gradient.to_local().tolist()}, actual {actual.tolist()}")
sys.exit(0 if (actual == 7.0).all() else 1)
