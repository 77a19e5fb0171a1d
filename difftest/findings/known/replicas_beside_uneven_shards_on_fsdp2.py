"""FSDP2 beside uneven tensor parallelism: the copies of a parameter that `tp` replicates drift apart.

FSDP2 reduces all gradients of a group in one buffer. It is larger on the rank of `tp` that has more columns,
so that gloo adds the same elements up in another order there. torch 2.9.0 and 2.15.0. Exits 0 while the fault
is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=8)
    mesh = init_device_mesh("cpu", (4, 1, 2), mesh_dim_names=("dp_replicate", "dp_shard", "tp"))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 5, bias=False))
    parallelize_module(model[1], mesh["tp"], ColwiseParallel())
    fully_shard(model, mesh=mesh["dp_replicate", "dp_shard"])
    torch.manual_seed(1 + rank // 2)
    model(torch.randn(8, 64)).square().sum().backward()
    gradient = model[0].weight.grad.to_local()
    copies = [torch.empty_like(gradient) for _ in range(8)]
    distributed.all_gather(copies, gradient)
    differing = (copies[1] != copies[0]).sum().item()
    print(f"rank {rank}: expected the same bits on all ranks, actual {differing} elements that differ")
    sys.exit(differing == 0)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 8)
