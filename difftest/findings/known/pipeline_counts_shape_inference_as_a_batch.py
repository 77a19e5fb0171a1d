"""Pipelining: a stage infers its shapes from zeros, which a batch norm counts as a batch.

Running mean and variance, and the number of batches, have one batch more than microbatches give in one process.
torch 2.9.0; 2.15.0 restores buffers. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
staged, alone = nn.BatchNorm1d(1), nn.BatchNorm1d(1)
schedule = ScheduleGPipe(
    PipelineStage(staged, 0, 1, torch.device("cpu")), n_microbatches=2, loss_fn=nn.functional.mse_loss
)
inputs = torch.tensor([[10.0], [20.0], [30.0], [40.0]])
schedule.step(inputs, target=inputs)
for rows in inputs.chunk(2):
    alone(rows)
expected, actual = [
    [one.running_mean.item(), one.running_var.item(), one.num_batches_tracked.item()]
    for one in (alone, staged)
]
print("mean, variance, batches: expected", expected, "actual", actual)
sys.exit(actual == expected)
