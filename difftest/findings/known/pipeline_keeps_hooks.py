"""Pipelining: a hook that a stage registers on its input stays there in the next step, so that its gradient is changed twice.

torch 2.9.0, silent. All steps receive into one tensor.
"""

import sys
import tempfile

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

STEPS, DOUBLED = 3, 2.0


class Doubling(nn.Linear):
    """Its input's gradient is doubled, as reversal layers and gradient scales do it."""

    def forward(self, x: Tensor) -> Tensor:
        if x.requires_grad:
            x.register_hook(lambda gradient: gradient * DOUBLED)
        return super().forward(x)


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.set_default_dtype(torch.float64)  # torch 2.9 cannot begin over gloo otherwise
    torch.manual_seed(0)
    parts, inputs, targets = [Doubling(4, 4), Doubling(4, 4)], torch.randn(4, 4), torch.randn(4, 4)
    nn.functional.mse_loss(parts[1](parts[0](inputs)), targets).backward()
    expected, actual = parts[rank].weight.grad.clone(), parts[rank]
    stage = PipelineStage(actual, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    for _ in range(STEPS):
        actual.zero_grad()
        schedule.step(*([inputs] if rank == 0 else []), target=targets)
    if rank == 0:
        print(f"expected {expected[0, 0]:.6f}, actual {actual.weight.grad[0, 0]:.6f}")
        sys.exit(int(torch.allclose(expected, actual.weight.grad)))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
