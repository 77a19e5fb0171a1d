"""Pipelining: in zero-bubble schedules the stage behind a frozen one gets no gradients.

torch 2.15.0, silent.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.pipelining import PipelineStage, ScheduleInterleavedZeroBubble


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.set_default_dtype(torch.float64)  # torch 2.9 cannot begin over gloo otherwise
    torch.manual_seed(0)
    parts = [nn.Linear(4, 4) for _ in range(4)]
    parts[0].requires_grad_(False)
    stages = [PipelineStage(parts[i], i, 4, torch.device("cpu")) for i in (rank, rank + 2)]
    schedule = ScheduleInterleavedZeroBubble(stages, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    ones = torch.ones(4, 4)
    schedule.step(*([ones] if rank == 0 else []), target=ones)
    if rank == 1:
        gradient = parts[1].weight.grad
        print("expected a gradient of the second stage, actual", "none" if gradient is None else "one")
        sys.exit(int(gradient is not None))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
