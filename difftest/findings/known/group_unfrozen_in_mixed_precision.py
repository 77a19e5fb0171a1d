"""FSDP2 with mixed precision: a group that was frozen in the first forward pass cannot be trained later.

torch 2.9.0 over gloo. The dtypes of its gradients are decided in the first forward pass, from the parameters
that are trained then.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    how = {
        "mesh": init_device_mesh("cpu", (2,)),
        "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
    }
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    fully_shard(model[0], **how)
    fully_shard(model, **how)
    for trained in (False, True):
        model[0].requires_grad_(trained)
        model(torch.ones(2, 4)).sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
