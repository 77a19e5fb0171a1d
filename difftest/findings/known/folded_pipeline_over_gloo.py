"""Pipelining over gloo: schedules in which a rank has two successive stages send to themselves.

torch 2.9.0. The handshake of stages goes from a rank to itself, for which gloo has no connection.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.pipelining import PipelineStage, ScheduleZBVZeroBubble


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.set_default_dtype(torch.float64)  # else the handshake fails for another reason
    stages = [PipelineStage(nn.Linear(4, 4), i, 4, torch.device("cpu")) for i in (rank, 3 - rank)]
    schedule = ScheduleZBVZeroBubble(stages, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    ones = torch.ones(4, 4)
    try:
        schedule.step(*([ones] if rank == 0 else []), target=ones)
    except RuntimeError:
        if rank == 1:  # it has the two stages in the middle
            raise


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
