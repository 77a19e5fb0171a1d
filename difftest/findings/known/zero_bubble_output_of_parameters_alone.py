"""Pipelining: in zero-bubble schedules a parameter that a stage hands on apart from its input gets no gradient.

A stage in the middle hands on its activations and what it has learned. With Interleaved1F1B the gradient is right.
torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble


class Stage(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index, self.gain, self.query = index, nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        h = sum(inputs[1:], inputs[0]) * self.gain
        return h if self.index == 3 else (h, self.query.expand(h.shape) * 1.0)


def main(rank: int, rendezvous: str) -> None:
    torch.set_default_dtype(torch.float64)
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    x, gradients = torch.ones(4, 1), []
    for kind in (ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble):
        modules = [Stage(rank), Stage(rank + 2)]
        stages = [PipelineStage(one, one.index, 4, torch.device("cpu")) for one in modules]
        schedule = kind(stages, n_microbatches=4, loss_fn=lambda output, _: output.sum(), scale_grads=False)
        schedule.step(*([x] if rank == 0 else []), target=x if rank == 1 else None)
        gradients.append(modules[1 - rank].query.grad)
        print(
            f"rank {rank}, {kind.__name__}: stage {modules[1 - rank].index}: expected 4.0, actual {gradients[-1]}",
            flush=True,
        )
    distributed.barrier()
    distributed.destroy_process_group()
    sys.exit(gradients[1] is not None)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
