"""`torch.distributed.nn.all_to_all` over gloo takes no parts of different sizes.

torch 2.9.0. With NCCL such parts are what it is for; gloo scatters them one after another, into equal sizes.
"""

import tempfile

import torch
import torch.distributed.nn.functional as differentiable
from torch import distributed, multiprocessing


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    sizes = [1 if other == rank else 2 for other in range(2)]
    sent, received = [torch.ones(size) for size in sizes], [torch.empty(size) for size in sizes]
    differentiable.all_to_all(received, sent)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
