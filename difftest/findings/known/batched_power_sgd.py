"""DDP: `batched_powerSGD_hook` fails as soon as it compresses: it gives a matrix where a batch of them is expected."""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, batched_powerSGD_hook
from torch.nn.parallel import DistributedDataParallel


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = DistributedDataParallel(nn.Linear(4, 4))
    state = PowerSGDState(None, start_powerSGD_iter=0, use_error_feedback=False, warm_start=False)
    model.register_comm_hook(state, batched_powerSGD_hook)
    model(torch.ones(2, 4)).sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
