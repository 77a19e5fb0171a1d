"""DDP: a backward pass that an exception has ended, which the program catches, cannot be tried again.

torch 2.9.0 and 2.15.0 over gloo.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


def fail(*_: object) -> None:
    raise torch.OutOfMemoryError


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    trained = DistributedDataParallel(model)
    hook = model[0].register_full_backward_pre_hook(fail)
    try:
        trained(torch.ones(1, 2)).sum().backward()
    except torch.OutOfMemoryError:
        hook.remove()
        trained.zero_grad()
    trained(torch.ones(1, 2)).sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
