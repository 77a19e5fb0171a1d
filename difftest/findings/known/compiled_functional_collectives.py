"""A compiled function through which gradients go by `all_gather_tensor_autograd` gives zeros.

torch 2.9.0. So do `reduce_scatter_tensor_autograd` and `all_to_all_single_autograd`. Silent. Exits 0 while the fault
is there.
"""

import sys
import tempfile

import torch
from torch import distributed
from torch.distributed import _functional_collectives as collectives

distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)


@torch.compile(backend="aot_eager")
def gathered(x: torch.Tensor) -> torch.Tensor:
    return collectives.wait_tensor(collectives.all_gather_tensor_autograd(x, 0, distributed.group.WORLD))


x = torch.ones(2, requires_grad=True)
gathered(x).sum().backward()
print(f"expected [1.0, 1.0], actual {x.grad.tolist()}")
sys.exit(0 if x.grad.tolist() == [0.0, 0.0] else 1)
