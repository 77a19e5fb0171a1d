"""fully_shard fails in the backward pass where tensor parallelism leaves a rank nothing of a parameter.

torch 2.9.0 and 2.15.0 over gloo: three columns on four ranks. Exits 0 when the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import RowwiseParallel, parallelize_module


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=4)
    mesh, actual = init_device_mesh("cpu", (1, 4), mesh_dim_names=("dp", "tp")), "a gradient"
    plan = {"0": RowwiseParallel(input_layouts=Replicate())}
    model = parallelize_module(nn.Sequential(nn.Linear(3, 3, bias=False)), mesh["tp"], plan)
    fully_shard(model, mesh=mesh["dp"])
    try:
        model(torch.rand(2, 3)).sum().backward()
    except RuntimeError as error:
        actual = f"RuntimeError: {error}"
    print(f"rank {rank}: expected a gradient, actual {actual[:90]!r}", flush=True)
    sys.exit(None if rank < 3 or "_chunk_cat expects non-empty tensor" in actual else "not there")


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 4)
