"""Pipelining: a stage cannot hand on a dict, as models have outputs with names.

torch 2.9.0 goes on with the names alone, and looks for the size of a string. torch 2.15.0 says what it takes.
"""

import os
import signal
import tempfile
import traceback

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


class First(nn.Linear):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:  # type: ignore[override]
        return {"hidden": super().forward(x)}


class Last(nn.Linear):
    def forward(self, given: dict[str, torch.Tensor]) -> torch.Tensor:  # type: ignore[override]
        return super().forward(given["hidden"])


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.set_default_dtype(torch.float64)  # torch 2.9 cannot begin over gloo otherwise
    stage = PipelineStage((First, Last)[rank](4, 4), rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    ones = torch.ones(4, 4)
    try:
        schedule.step(*([ones] if rank == 0 else []), target=ones)
    except Exception:
        traceback.print_exc()
        os.kill(os.getpid(), signal.SIGKILL)  # the other rank waits for this one


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
