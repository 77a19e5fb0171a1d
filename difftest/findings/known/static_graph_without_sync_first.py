"""DDP: a static graph whose first backward pass is in `no_sync` ends in an internal assertion.

torch 2.9.0 over gloo.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = DistributedDataParallel(nn.Linear(4, 2), static_graph=True)
    with model.no_sync():
        model(torch.ones(1, 4)).sum().backward()
    model(torch.ones(1, 4)).sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
