"""`torch.load` refuses what it saved of FSDP2 over tensor parallelism: `_StridedShard` is no safe global.

torch 2.9.0 over gloo. Other placements are.
"""

import io
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=4)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = nn.Sequential(nn.Linear(4, 4))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    torch.load(file, weights_only=True)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 4)
