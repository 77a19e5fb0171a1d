"""In zero-bubble schedules a module that FSDP2 gathers alone inside a stage loses the gradients of microbatches.

torch 2.9.0. Of two microbatches one counts; `Interleaved1F1B` is right. Silent. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=4)
    torch.set_default_dtype(torch.float64)  # torch 2.9 cannot begin over gloo otherwise
    mesh, gradients = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp")), []
    at, group = mesh.get_local_rank("pp"), mesh.get_group("pp")
    for kind in (ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble):
        torch.manual_seed(0)
        parts = [nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)) for _ in range(4)]
        for part in parts:
            fully_shard(part[0], mesh=mesh["dp"])
            fully_shard(part, mesh=mesh["dp"])
        stages = [PipelineStage(parts[i], i, 4, torch.device("cpu"), group=group) for i in (at, at + 2)]
        schedule = kind(stages, n_microbatches=2, loss_fn=nn.functional.mse_loss)
        rows = torch.full((2, 2), 1.0 + mesh.get_local_rank("dp"))
        schedule.step(*([rows] if at == 0 else []), target=torch.zeros(2, 2))
        gradients.append(parts[2 - at][0].weight.grad.full_tensor())
    expected, actual = (gradient.flatten()[0].item() for gradient in gradients)
    print(f"rank {rank}: expected {expected:.4g}, actual {actual:.4g}")
    distributed.barrier()
    sys.exit(abs(actual - expected) < 1e-9)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 4)
