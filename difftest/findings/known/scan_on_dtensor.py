"""`scan` of a DTensor fails, in eager mode too: its body cannot be traced.

torch 2.9.0.
"""

import tempfile

import torch
from torch import distributed
from torch._higher_order_ops.scan import scan
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
steps = distribute_tensor(torch.ones(5, 4), mesh, [Replicate()])
start = distribute_tensor(torch.zeros(4), mesh, [Replicate()])


def add(carry: torch.Tensor, step: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    total = carry + step
    return total, total.clone()


_, sums = scan(add, start, steps, dim=0)
print(f"expected and actual: {sums.full_tensor()[-1].tolist()}")
