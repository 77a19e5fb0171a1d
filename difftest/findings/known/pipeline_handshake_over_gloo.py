"""Pipelining over gloo: the first message of a stage, an int64, is received in a float32, and gloo aborts.

torch 2.9.0. `_get_init_p2p_neighbors_ops` sends `torch.tensor(stage_index)` and receives in `torch.zeros(1)`.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    stage = PipelineStage(nn.Linear(4, 4), rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    ones = torch.ones(2, 4)
    schedule.step(*([ones] if rank == 0 else []), target=ones)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
