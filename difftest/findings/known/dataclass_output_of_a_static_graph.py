"""DDP: a static graph never reduces the gradients of a model that returns a dataclass.

It looks for tensors in tuples, lists and dictionaries alone. `find_unused_parameters` looks into dataclasses too.
torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import dataclasses
import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


@dataclasses.dataclass
class Output:
    logits: torch.Tensor


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1, bias=False)

    def forward(self, inputs: torch.Tensor) -> Output:
        return Output(self.linear(inputs))


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = DistributedDataParallel(Model(), static_graph=True)
    actual = []
    for _ in range(3):
        model.zero_grad()
        model(torch.full((1, 1), 1.0 + 2 * rank)).logits.sum().backward()
        actual.append(model.module.linear.weight.grad.item())
    print(f"rank {rank}: expected gradients of {[2.0] * 3}, actual {actual}")
    sys.exit(actual == [2.0] * 3)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
