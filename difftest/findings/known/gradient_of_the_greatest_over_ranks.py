"""`torch.distributed.nn.functional`: the gradient of a maximum over ranks goes to the wrong ranks, in silence.

`all_reduce` with MAX reduces the ranks' gradients with MAX too, and gives every rank the result. The gradient is the sum,
and that of the rank which has the greatest number. `reduce_scatter` and MIN are alike.
"""

import sys
import tempfile

import torch
import torch.distributed.nn.functional as differentiable
from torch import distributed, multiprocessing


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    own = torch.tensor([float(rank)], requires_grad=True)
    greatest = differentiable.all_reduce(own * 1.0, op=distributed.ReduceOp.MAX)
    (greatest * (rank + 1)).sum().backward()
    if rank == 0:
        print(f"expected 0.0 on the rank with less, actual {own.grad.item()}")
        sys.exit(int(own.grad.item() == 0.0))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
