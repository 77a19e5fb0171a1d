"""FSDP1: `HYBRID_SHARD` over one shard never averages gradients over the replicas.

torch 2.9.0 over gloo, 2 ranks. Prints what each rank has, and exits 0 while the fault is there.
"""

import sys
import tempfile
import warnings

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))
    warnings.simplefilter("ignore")  # it switches to NO_SHARD, as its world size is 1
    model = FullyShardedDataParallel(
        nn.Linear(1, 1, bias=False),
        device_mesh=mesh,
        sharding_strategy=ShardingStrategy.HYBRID_SHARD,
        use_orig_params=True,
        device_id=torch.device("cpu"),
    )
    model(torch.full((1, 1), float(rank))).sum().backward()
    gradients = [torch.zeros(1, 1) for _ in range(2)]
    distributed.all_gather(gradients, next(model.parameters()).grad)
    if rank == 0:
        print(f"expected a gradient of 0.5 on both ranks, actual {[one.item() for one in gradients]}")
    sys.exit(all(gradient == 0.5 for gradient in gradients))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
