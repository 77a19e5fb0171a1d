"""`clip_grad_norm_` over sharded gradients adds its 1e-6 to the partial norm of every rank.

torch 2.9.0, two ranks over gloo. How much is clipped therefore depends on the world size: with two ranks, the
norm of the whole gradient grows by 1.4e-6. Exits 0 when the fault is there.
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

NORM = 2.0**-10


def main(rank: int, rendezvous: str) -> None:
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    gradient = torch.full((4,), NORM / 2)  # its norm is NORM
    parameter = torch.nn.Parameter(distribute_tensor(torch.zeros(4), mesh, [Shard(0)]))
    parameter.grad = distribute_tensor(gradient, mesh, [Shard(0)])
    torch.nn.utils.clip_grad_norm_([parameter], NORM / 2)
    added = NORM / 2 * gradient[0].item() / parameter.grad.to_local()[0].item() - NORM
    if rank == 0:
        print(f"expected 1e-06 added to the norm, actual {added:.3g}", flush=True)
    os._exit(0 if added > 1.3e-6 else 1)


if __name__ == "__main__":
    try:
        torch.multiprocessing.spawn(main, (f"file://{tempfile.mkdtemp()}/rendezvous",), nprocs=2)
    except torch.multiprocessing.ProcessExitedException:
        sys.exit(1)
