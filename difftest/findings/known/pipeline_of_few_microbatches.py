"""Pipelining: with fewer microbatches than ranks, schedules with several stages a rank compute with wrong tensors.

torch 2.9.0, silent. A stage runs before what it receives has arrived.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.set_default_dtype(torch.float64)  # torch 2.9 cannot begin over gloo otherwise
    torch.manual_seed(0)
    parts, inputs = [nn.Linear(4, 4) for _ in range(4)], torch.randn(2, 4)
    expected = nn.Sequential(*parts)(inputs).detach()
    stages = [PipelineStage(parts[i], i, 4, torch.device("cpu")) for i in (rank, rank + 2)]
    schedule = ScheduleInterleaved1F1B(stages, n_microbatches=1, loss_fn=nn.functional.mse_loss)
    actual = schedule.step(*([inputs] if rank == 0 else []), target=torch.ones(2, 4))
    if rank == 1:
        print(f"expected {expected[0, 0]:.6f}, actual {actual[0, 0]:.6f}")
        sys.exit(int(torch.allclose(expected, actual)))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
