"""After an exception within `context_parallel`, `scaled_dot_product_attention` stays replaced for the process,
and the buffers stay the rank's pieces.

torch 2.9.0; 2.15.0 restores both. The group is a fake one.
"""

import contextlib

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
sequence = torch.ones(1, 1, 8, 4)
with contextlib.suppress(KeyError), context_parallel(mesh, buffers=[sequence], buffer_seq_dims=[2]):
    raise KeyError
print("expected a sequence of 8, actual", sequence.shape[2])
print(
    "expected attention, actual",
    torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 1, 2, 4)] * 3),
)
