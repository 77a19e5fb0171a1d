"""Pipelining: a keyword of a stage cannot be a tensor without dims, such as a scale.

torch 2.9.0 and 2.15.0. Every tensor is split along dim 0; a float in its place is not.
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
schedule.step(torch.ones(4, 4), scale=torch.tensor(2.0), target=torch.zeros(4, 4))
