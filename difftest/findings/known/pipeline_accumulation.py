"""Pipelining: several `schedule.step` before an update divide earlier gradients again by the number of microbatches.

torch 2.9.0 and 2.15.0, silent. `scale_grads` divides all that is in `.grad`.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.set_default_dtype(torch.float64)  # torch 2.9 cannot begin over gloo otherwise
    torch.manual_seed(0)
    model, inputs, targets = (
        nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)),
        torch.randn(4, 4),
        torch.randn(4, 4),
    )
    nn.functional.mse_loss(model(inputs), targets).backward()
    expected, actual = 2 * model[rank].weight.grad, nn.Linear(4, 4)
    actual.load_state_dict(model[rank].state_dict())
    stage = PipelineStage(actual, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    for _ in range(2):
        schedule.step(*([inputs] if rank == 0 else []), target=targets)
    if rank == 0:
        print(f"expected {expected[0, 0]:.6f}, actual {actual.weight.grad[0, 0]:.6f}")
        sys.exit(int(torch.allclose(expected, actual.weight.grad)))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
