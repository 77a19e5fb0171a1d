"""DDP: two forward passes of a model with batch normalization before one backward pass fail.

torch 2.9.0 over gloo. Sending the buffers ahead of the second forward pass writes into what the first one saved.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)))
    (model(torch.randn(4, 4)) + model(torch.randn(4, 4))).sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
