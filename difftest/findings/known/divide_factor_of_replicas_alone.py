"""FSDP2: on a mesh whose shard axis has one rank, `set_gradient_divide_factor` divides twice.

Where gradients are summed first and divided afterwards, as in float16 too. torch 2.15.0 over gloo.
Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))
    model = fully_shard(nn.Linear(1, 1, bias=False), mesh=mesh)
    model.set_gradient_divide_factor(4.0)
    model.set_force_sum_reduction_for_comms(True)
    model(torch.ones(1, 1)).sum().backward()
    actual = model.weight.grad.full_tensor().item()
    print(f"expected {2 / 4}, actual {actual}")
    sys.exit(actual == 2 / 4)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
