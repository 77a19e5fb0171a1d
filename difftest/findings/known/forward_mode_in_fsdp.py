"""FSDP2: `torch.func.jvp` fails, as the storage of what it wraps cannot be allocated.

torch 2.9.0 over gloo; 2.15.0 is right.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.fsdp import fully_shard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = fully_shard(nn.Linear(4, 4))
    output, derivative = torch.func.jvp(model, (torch.ones(2, 4),), (torch.ones(2, 4),))
    (output.square().sum() + derivative.square().sum()).backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
