"""DDP: `quantization_pertensor_hook` fails on every bucket: a rank's part of a gathered list is a number."""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks import quantization_pertensor_hook
from torch.nn.parallel import DistributedDataParallel


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = DistributedDataParallel(nn.Linear(4, 4))
    model.register_comm_hook(distributed.group.WORLD, quantization_pertensor_hook)
    model(torch.ones(2, 4)).sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
