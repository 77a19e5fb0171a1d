"""Pipelining: a stage that begins with an operator in place fails, since its input is a leaf.

In one process the input of `nn.ReLU(inplace=True)` is what the layer before gave. torch 2.9.0 and 2.15.0. Exits 0
while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


def main(rank: int, rendezvous: str) -> None:
    torch.set_default_dtype(torch.float64)
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    first, second = nn.Linear(2, 2), nn.Sequential(nn.ReLU(inplace=True), nn.Linear(2, 2))
    second(first(torch.ones(2, 2))).sum().backward()
    schedule = ScheduleGPipe(
        PipelineStage((first, second)[rank], rank, 2, torch.device("cpu")),
        n_microbatches=2,
        loss_fn=lambda output, _: output.sum(),
    )
    x = torch.ones(2, 2)
    try:
        schedule.step(*([x] if rank == 0 else []), target=x if rank == 1 else None)
    except RuntimeError as error:
        print(f"rank {rank}: {error.__cause__ or error}"[:160], flush=True)
        sys.exit(0)
    sys.exit(1)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
