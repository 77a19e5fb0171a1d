"""`distribute_tensor` of int16 in shards fails over gloo.

Torch 2.9.0 and 2.15.0, over gloo, whose scatter lacks that type.
"""

import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def int16(mesh: DeviceMesh) -> object:
    return distribute_tensor(torch.arange(4, dtype=torch.int16), mesh, [Shard(0)])


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    print("expected a DTensor, actual", int16(mesh))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
