"""Pipelining: the second `schedule.step` of a stage in DDP ends in an internal assertion of DDP.

torch 2.15.0, in every schedule. DDP counts the parameters of the first step twice.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.parallel import DistributedDataParallel


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.set_default_dtype(torch.float64)  # torch 2.9 cannot begin over gloo otherwise
    alone = [distributed.new_group([one]) for one in range(2)][rank]
    module = DistributedDataParallel(nn.Linear(4, 4), process_group=alone)
    stage = PipelineStage(module, rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    ones = torch.ones(4, 4)
    for _ in range(2):
        schedule.step(*([ones] if rank == 0 else []), target=ones)
        module.zero_grad()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
