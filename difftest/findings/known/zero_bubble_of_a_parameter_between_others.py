"""Pipelining: in zero-bubble schedules gradients are doubled if a parameter is added to the input beside each of two others.

`a + shared` and `b + shared`, registered as a, b, shared. Each makes a group of parameters, the groups share one,
and both are differentiated. torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble


class Stage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.shared = (nn.Parameter(torch.zeros(1)) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return (x + (self.a + self.shared)).sin() * (x + (self.b + self.shared)).cos()


def main(rank: int, rendezvous: str) -> None:
    torch.set_default_dtype(torch.float64)
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    x, gradients = torch.ones(4, 1), []
    for kind in (ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble):
        modules = [Stage(), Stage()]
        stages = [PipelineStage(one, rank + 2 * at, 4, torch.device("cpu")) for at, one in enumerate(modules)]
        schedule = kind(stages, n_microbatches=4, loss_fn=lambda output, _: output.sum(), scale_grads=False)
        schedule.step(*([x] if rank == 0 else []), target=x if rank == 1 else None)
        gradients.append([round(one.grad.item(), 6) for one in modules[1].parameters()])
    whole = [Stage() for _ in range(4)]
    y = x
    for one in whole:
        y = one(y)
    y.sum().backward()
    expected = [round(one.grad.item(), 6) for one in whole[rank + 2].parameters()]
    print(f"rank {rank}: expected {expected}, 1F1B {gradients[0]}, zero bubble {gradients[1]}", flush=True)
    distributed.barrier()
    distributed.destroy_process_group()
    sys.exit(gradients[1] == expected)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
