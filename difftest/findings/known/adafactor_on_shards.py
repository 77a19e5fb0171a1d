"""Adafactor: a sharded parameter is trained with a norm of one shard in place of that of all.

Squares of norms that are partial over ranks are taken before these are added up. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def trained(weight: Tensor, gradient: Tensor) -> Tensor:
    parameter = nn.Parameter(weight)
    parameter.grad = gradient
    torch.optim.Adafactor([parameter], lr=0.125).step()
    return parameter.detach()


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    weight, gradient = torch.ones(4), torch.tensor([1.0, 1.0, 4.0, 4.0])
    cut = trained(distribute_tensor(weight, mesh, [Shard(0)]), distribute_tensor(gradient, mesh, [Shard(0)]))
    expected, actual = trained(weight.clone(), gradient), cut.full_tensor()
    print(f"expected {expected.tolist()}, actual {actual.tolist()}")
    sys.exit(torch.allclose(actual, expected, atol=1e-5))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
