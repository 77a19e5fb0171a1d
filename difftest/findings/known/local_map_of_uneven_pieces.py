"""The shape of what `local_map` gives is that of even pieces, each as large as the rank's own.

torch 2.9.0. Ranks disagree about it, and what they do next hangs, fails or is wrong. Exits 0 while the fault is there.
"""

import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.experimental import local_map


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.ones(5, 2), mesh, [Shard(0)])
    doubled = local_map(lambda piece: piece * 2, [Shard(0)], ([Shard(0)],), device_mesh=mesh)(x)
    print(f"rank {rank}: expected (5, 2), actual {tuple(doubled.shape)}")
    raise SystemExit(tuple(doubled.shape) == (5, 2))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
