"""FSDP2: gradients are added up over the axis of tensor parallelism in `param_dtype`, not in `reduce_dtype`.

torch 2.9.0 over gloo, 2 ranks. The gradients are 1 and 2 ** -9, whose sum bfloat16 does not have. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import SequenceParallel, parallelize_module


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    model = parallelize_module(nn.LayerNorm(2), mesh["tp"], SequenceParallel())
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    fully_shard(model, mesh=mesh["dp"], mp_policy=policy)
    output = model(torch.randn(1, 1, 2))
    weights = torch.full((1, 1, 2), 1.0 if rank == 0 else 2**-9, dtype=torch.bfloat16)
    (output * DTensor.from_local(weights, mesh["tp"], [Shard(1)])).sum().backward()
    actual = model.bias.grad.to_local()
    if rank == 0:
        print(f"expected gradients of {1 + 2**-9}, actual {actual.tolist()}")
    sys.exit(bool((actual == 1 + 2**-9).all()))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
