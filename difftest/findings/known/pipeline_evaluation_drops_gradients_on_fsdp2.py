"""Pipelining: an evaluation between two accumulated steps throws away the gradients of stages in FSDP2.

Each change between training and evaluation infers shapes again, and sets the gradients of FSDP modules to None
behind that. torch 2.15.0; 2.9.0 is right. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


def main(rank: int, rendezvous: str) -> None:
    torch.set_default_dtype(torch.float64)
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("pp", "dp_shard"))
    module = nn.Linear(1, 1, bias=False)
    nn.init.ones_(module.weight)
    fully_shard(module, mesh=mesh["dp_shard"])
    stage = PipelineStage(module, rank, 2, torch.device("cpu"), group=mesh.get_group("pp"))
    schedule = ScheduleGPipe(
        stage, n_microbatches=2, loss_fn=lambda output, _: output.sum(), scale_grads=False
    )
    x = torch.ones(2, 1)
    for call in (schedule.step, schedule.eval, schedule.step):
        call(*([x] if rank == 0 else []), target=x if rank == 1 else None)
    actual = module.weight.grad.full_tensor().item()
    print(f"rank {rank}: expected 4.0, actual {actual}", flush=True)
    distributed.barrier()
    distributed.destroy_process_group()
    sys.exit(actual == 4.0)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
