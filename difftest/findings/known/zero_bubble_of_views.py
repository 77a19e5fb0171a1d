"""Pipelining: a stage that returns a view fails in zero-bubble schedules.

torch 2.9.0 and 2.15.0. `stage_backward_input` calls `detach_`, which refuses views.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.pipelining import PipelineStage, ScheduleInterleavedZeroBubble


class Part(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).view(-1, 4)


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.set_default_dtype(torch.float64)  # torch 2.9 cannot begin over gloo otherwise
    stages = [PipelineStage(Part(4, 4), i, 4, torch.device("cpu")) for i in (rank, rank + 2)]
    schedule = ScheduleInterleavedZeroBubble(stages, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    ones = torch.ones(4, 4)
    try:
        schedule.step(*([ones] if rank == 0 else []), target=ones)
    except RuntimeError:
        if rank == 0:  # it has the first stage whose gradient is computed apart from that of its weights
            raise


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
