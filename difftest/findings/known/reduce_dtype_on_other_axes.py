"""FSDP2: `reduce_dtype` does not hold for the reduction over tensor parallelism, which is of the parameter's dtype.

A norm whose weight is replicated over tensor parallelism has a gradient that is a partial sum. It is reduced in
bfloat16 before FSDP2 casts it: 256 + 1 is 256. torch 2.9.0 over gloo. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor


class Scale(nn.Module):
    def __init__(self, mesh) -> None:
        super().__init__()
        self.weight = nn.Parameter(distribute_tensor(torch.ones(1), mesh, [Replicate()]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = fully_shard(Scale(mesh["tp"]), mesh=mesh["dp"], mp_policy=policy)
    row = torch.full((1, 1), (256.0, 1.0)[rank], dtype=torch.bfloat16)
    model(DTensor.from_local(row, mesh["tp"], [Shard(0)])).sum().backward()
    expected, actual = 257.0, model.weight.grad.full_tensor().item()
    print(f"expected {expected}, actual {actual}")
    sys.exit(actual == expected)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
