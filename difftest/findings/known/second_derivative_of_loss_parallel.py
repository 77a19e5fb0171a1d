"""Loss_parallel: the gradient of a penalty on the gradient of the loss is 0.

The penalty itself is right. torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.functional import cross_entropy

RANKS = 2


def penalty(x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    (slope,) = torch.autograd.grad(cross_entropy(x, targets), x, create_graph=True)
    return (slope * slope).sum()


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    x, targets = torch.tensor([[1.0, 2.0, 0.0, 3.0]], dtype=torch.float64), torch.tensor([1])
    whole, pieces = x.clone().requires_grad_(), distribute_tensor(x, mesh, [Shard(1)]).requires_grad_()
    first = penalty(whole, targets)
    first.backward()
    with loss_parallel():
        second = penalty(pieces, targets).full_tensor()
        second.backward()
    expected, actual = whole.grad, pieces.grad.full_tensor()
    distributed.destroy_process_group()
    if rank == 0:
        print(f"penalty: expected {first.item():.6f}, actual {second.item():.6f}")
        print(f"its gradient: expected {expected.tolist()}, actual {actual.tolist()}")
    sys.exit(torch.allclose(actual, expected))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), RANKS)
