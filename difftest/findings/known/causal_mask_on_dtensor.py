"""`nn.Transformer` with a mask fails: it compares the mask with a plain causal one.

torch 2.9.0. Nothing is sharded; the process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def place(tensor: torch.Tensor) -> DTensor:
    return distribute_tensor(tensor, mesh, [Replicate()]).requires_grad_(tensor.is_floating_point())


def of(*shape: int) -> DTensor:
    return place(torch.rand(shape))


BLOCK = torch.nn.TransformerEncoderLayer(2, 1, 2)
print("expected a DTensor, actual", torch.nn.TransformerEncoder(BLOCK, 1)(of(3, 2), of(3, 3)))
