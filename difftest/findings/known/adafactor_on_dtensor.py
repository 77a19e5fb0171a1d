"""Adafactor takes another step for sharded parameters than for whole ones.

torch 2.9.0. It squares norms of rows or columns in place, which are partial sums then. Silent; newer releases raise.
Exits 0 while the fault is there.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(0)
    weight, gradient = torch.randn(4, 4), torch.randn(4, 4)
    whole, sharded = nn.Parameter(weight), nn.Parameter(distribute_tensor(weight, mesh, [Shard(0)]))
    whole.grad, sharded.grad = gradient, distribute_tensor(gradient, mesh, [Shard(0)])
    for parameter in (whole, sharded):
        torch.optim.Adafactor([parameter], lr=0.1).step()
    error = (sharded.full_tensor() - whole).abs().max().item()
    print(f"rank {rank}: expected an error of 0, actual {error:.3g}")
    raise SystemExit(error < 1e-6)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
