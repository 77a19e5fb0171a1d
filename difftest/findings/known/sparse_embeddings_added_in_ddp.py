"""DDP: the gradients of two sparse embeddings whose outputs are added are divided twice.

DDP divides the values of sparse gradients in place, and both gradients have the same values: those of the sum.
torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(4, 2, sparse=True), nn.Embedding(4, 2, sparse=True)
        for parameter in self.parameters():
            nn.init.ones_(parameter)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.tokens(tokens) + self.positions(torch.arange(len(tokens)))


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    one, model = Model(), DistributedDataParallel(Model())
    batches = [torch.tensor([0, 1, 3]), torch.tensor([2, 1, 0])]
    (sum((one(batch) * 8).sum() for batch in batches) / 2).backward()
    (model(batches[rank]) * 8).sum().backward()
    wrong = 0
    for (name, expected), actual in zip(one.named_parameters(), model.parameters(), strict=True):
        expected, actual = expected.grad.to_dense()[:, 0], actual.grad.to_dense()[:, 0]
        print(f"rank {rank} {name}: expected {expected.tolist()}, actual {actual.tolist()}")
        wrong += not torch.equal(expected, actual)
    sys.exit(not wrong)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
