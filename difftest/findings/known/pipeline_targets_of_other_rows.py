"""Pipelining: where inputs are cut along another dim than the first, targets are not, and have other rows.

torch 2.9.0 and 2.15.0, silent where the loss is of flat tensors. Without a keyword, 2.9.0 refuses such inputs.
"""

import sys
import tempfile

import torch
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.pipelining.microbatch import TensorChunkSpec


class Scaled(nn.Module):
    def forward(self, inputs: torch.Tensor, scale: float) -> torch.Tensor:
        return inputs * scale


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.mse_loss(outputs.flatten(), targets.flatten())


distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
stage = PipelineStage(Scaled(), 0, 1, torch.device("cpu"))
second = TensorChunkSpec(1)
schedule = ScheduleGPipe(
    stage, n_microbatches=2, loss_fn=loss, args_chunk_spec=(second,), output_merge_spec=second
)
inputs = torch.arange(8.0).view(4, 2, 1).requires_grad_()  # sequence, rows, width
losses: list[torch.Tensor] = []
schedule.step(inputs, scale=1.0, target=inputs.detach().clone(), losses=losses)
print("expected", [0.0, 0.0], "actual", [one.item() for one in losses])
sys.exit(all(one.item() == 0 for one in losses))
