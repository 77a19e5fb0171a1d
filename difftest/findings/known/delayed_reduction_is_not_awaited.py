"""DDP: nothing waits for the reduction that `delay_all_reduce_named_params` delays.

Gradients are read while they are added up. A race, so that it is tried 8 times. torch 2.9.0 and 2.15.0. Exits 0
while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

SIZE = 2**11


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    module = nn.Sequential(nn.Linear(1, SIZE, bias=False), nn.Linear(SIZE, SIZE, bias=False))
    for parameter in module.parameters():
        nn.init.ones_(parameter)
    model = DistributedDataParallel(
        module,
        delay_all_reduce_named_params=[("1.weight", module[1].weight)],
        param_to_hook_all_reduce=module[0].weight,
    )
    wrong = torch.zeros(1)
    for _ in range(8):
        model.zero_grad()
        model(torch.full((1, 1), 1.0 + 2 * rank)).sum().backward()
        actual = module[1].weight.grad.clone().unique().tolist()
        print(f"rank {rank}: expected gradients of {[2.0]}, actual {actual[:5]}")
        wrong += actual != [2.0]
    distributed.all_reduce(wrong)
    sys.exit(wrong.item() == 0)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
