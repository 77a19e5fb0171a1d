"""Pipelining: `schedule.eval` fails in schedules in which a rank has two successive stages.

torch 2.15.0. After the forward passes it takes the gradient of what one stage gave the other, and there is none.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.pipelining import PipelineStage, ScheduleZBVZeroBubble


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.set_default_dtype(torch.float64)  # torch 2.9 cannot begin over gloo otherwise
    stages = [PipelineStage(nn.Linear(4, 4), i, 4, torch.device("cpu")) for i in (rank, 3 - rank)]
    schedule = ScheduleZBVZeroBubble(stages, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    ones = torch.ones(4, 4)
    try:
        schedule.eval(*([ones] if rank == 0 else []), target=ones)
    except AssertionError:
        if rank == 1:  # it has the two stages in the middle
            raise


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
