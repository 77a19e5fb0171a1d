"""Pipelining: after an evaluation ahead of the first step no step can be trained.

torch 2.9.0. The first call of a schedule makes what its stages need, which is less for an evaluation.
"""

import tempfile

import torch
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
stage = PipelineStage(nn.Linear(4, 4), 0, 1, torch.device("cpu"))
schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
inputs, targets = torch.ones(4, 4), torch.zeros(4, 4)
schedule.eval(inputs, target=targets)
schedule.step(inputs, target=targets)
