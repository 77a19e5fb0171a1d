"""DTensor: `clip_grad_norm_` with `norm_type=0` counts a tensor once for every rank that has a piece of it.

Such a norm of the norms is the number of tensors with a gradient that is not 0. torch 2.9.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    weight = nn.Parameter(torch.ones(4))
    weight.grad = torch.ones(4)
    sharded = nn.Parameter(distribute_tensor(weight.detach(), init_device_mesh("cpu", (2,)), [Shard(0)]))
    sharded.grad = torch.ones_like(sharded)
    expected = nn.utils.clip_grad_norm_([weight], 1.0, norm_type=0.0).item()
    actual = nn.utils.clip_grad_norm_([sharded], 1.0, norm_type=0.0).full_tensor().item()
    print(f"rank {rank}: expected a norm of {expected}, actual {actual}")
    sys.exit(expected == actual)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
