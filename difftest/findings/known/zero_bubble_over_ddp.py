"""Pipelining: zero-bubble schedules do not reduce the gradients of stages in DDP.

torch 2.9.0, silent. Gradients of weights come from `torch.autograd.grad`, which calls none of DDP's hooks.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, ScheduleInterleavedZeroBubble
from torch.nn.parallel import DistributedDataParallel


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=4)
    torch.set_default_dtype(torch.float64)  # torch 2.9 cannot begin over gloo otherwise
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
    pp, dp = mesh.get_group("pp"), mesh.get_group("dp")
    parts, cpu = [nn.Linear(4, 4) for _ in range(4)], torch.device("cpu")
    stages = [
        PipelineStage(DistributedDataParallel(parts[i], process_group=dp), i, 4, cpu, group=pp)
        for i in (pp.rank(), pp.rank() + 2)
    ]
    schedule = ScheduleInterleavedZeroBubble(stages, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    inputs = torch.randn(4, 4)[2 * dp.rank() :][:2]
    schedule.step(*([inputs] if pp.rank() == 0 else []), target=torch.ones(2, 4))
    own = parts[pp.rank() + 2].weight.grad
    reduced = own.clone()
    distributed.all_reduce(reduced, group=dp)
    if rank == 3:
        print(f"expected {reduced[0, 0] / 2:.6f}, actual {own[0, 0]:.6f}")
        sys.exit(int(torch.allclose(reduced / 2, own)))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 4)
