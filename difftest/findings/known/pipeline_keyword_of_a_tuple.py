"""Pipelining: a keyword of a stage cannot be a tuple of tensors, such as the cosine and the sine of positions.

torch 2.9.0. Each keyword has one chunk spec, and the tuple has two values.
"""

import tempfile

import torch
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


class Scaled(nn.Linear):
    def forward(self, inputs: torch.Tensor, scale: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return super().forward(inputs * scale[0] + scale[1])


distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
stage = PipelineStage(Scaled(4, 4), 0, 1, torch.device("cpu"))
schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
schedule.step(torch.ones(4, 4), scale=(torch.ones(4, 1), torch.zeros(4, 1)), target=torch.zeros(4, 4))
