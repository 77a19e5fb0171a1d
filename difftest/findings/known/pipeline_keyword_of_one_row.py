"""Pipelining: a keyword of a stage cannot have one row for all, such as positions or a mask that every row shares.

torch 2.9.0 and 2.15.0. The number of microbatches becomes that of the rows, which the schedule then refuses.
"""

import tempfile

import torch
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


class Scaled(nn.Linear):
    def forward(self, inputs: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs * scale)


distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
stage = PipelineStage(Scaled(4, 4), 0, 1, torch.device("cpu"))
schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
schedule.step(torch.ones(4, 4), scale=torch.ones(1, 4), target=torch.zeros(4, 4))
