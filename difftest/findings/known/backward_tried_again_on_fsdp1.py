"""FSDP1: gradients of a backward pass that an exception has ended are added to those of the next one.

The program catches the exception and drops gradients, but not the shards that FSDP1 keeps until the pass ends.
torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.fsdp import FullyShardedDataParallel


def fail(*_: object) -> None:
    raise torch.OutOfMemoryError


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    cpu = torch.device("cpu")
    first, second = (nn.Linear(2, 2, bias=False) for _ in range(2))
    for layer in (first, second):
        nn.init.ones_(layer.weight)
    layers = [FullyShardedDataParallel(one, device_id=cpu, use_orig_params=True) for one in (first, second)]
    model = FullyShardedDataParallel(nn.Sequential(*layers), device_id=cpu, use_orig_params=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    gradients = []
    for attempt in range(3):
        hook = first.register_full_backward_pre_hook(fail) if attempt == 1 else None
        try:
            model(torch.ones(1, 2)).sum().backward()
            gradients.append([parameter.grad.tolist() for parameter in model.parameters()])
        except torch.OutOfMemoryError:
            hook.remove()
        optimizer.zero_grad()
    print(f"rank {rank}: expected the gradients {gradients[0]}, actual {gradients[1]}")
    sys.exit(gradients[0] == gradients[1])


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
