"""DDP: `find_unused_parameters` fails where a sparse embedding is not used.

It expects the gradient of a sparse embedding to be defined. torch 2.9.0 and 2.15.0. Exits 0 while the fault is
there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.kinds = nn.Embedding(4, 2, sparse=True), nn.Embedding(4, 2, sparse=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.tokens(tokens)


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = DistributedDataParallel(Model(), find_unused_parameters=True)
    try:
        model(torch.tensor([0, 1])).sum().backward()
    except RuntimeError as error:
        print(f"rank {rank}: expected gradients, actual {error}")
        sys.exit(0)
    print(f"rank {rank}: expected and actual gradients")
    sys.exit(1)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
