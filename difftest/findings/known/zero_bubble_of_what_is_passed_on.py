"""Pipelining: in zero-bubble schedules a stage that hands on what it received beside its own output fails.

A skip connection over a stage. With Interleaved1F1B it is right. torch 2.9.0 and 2.15.0.
"""

import os
import signal
import tempfile
import traceback

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import ScheduleInterleavedZeroBubble


class Stage(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index, self.linear = index, nn.Linear(1, 1)

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        whole = sum(inputs[1:], inputs[0])
        return self.linear(whole) if self.index == 3 else (self.linear(whole), whole)


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.set_default_dtype(torch.float64)  # torch 2.9 cannot begin over gloo otherwise
    modules = [Stage(rank), Stage(rank + 2)]
    stages = [PipelineStage(one, one.index, 4, torch.device("cpu")) for one in modules]
    schedule = ScheduleInterleavedZeroBubble(stages, n_microbatches=4, loss_fn=lambda output, _: output.sum())
    x = torch.ones(4, 1)
    try:
        schedule.step(*([x] if rank == 0 else []), target=x if rank == 1 else None)
    except RuntimeError:
        traceback.print_exc()
        os.kill(os.getpid(), signal.SIGKILL)  # the other rank waits for this one
    actual = [one.linear.weight.grad is not None for one in modules]
    print(f"rank {rank}: expected gradients in all stages, actual {actual}")


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
