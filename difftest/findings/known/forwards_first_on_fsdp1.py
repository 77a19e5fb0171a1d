"""FSDP1 frees parameters after the first of two backward passes, so that the second fails.

torch 2.9.0. Both forward passes come first, as in a step of two views.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.fsdp import FullyShardedDataParallel


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
    x = torch.ones(2, 4)
    for loss in [model(x).sum(), model(x).sum()]:
        loss.backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
