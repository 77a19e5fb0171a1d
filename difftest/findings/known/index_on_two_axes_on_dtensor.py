"""DTensor: an index that is sharded over two mesh axes is not supported.

torch 2.9.0 on a CPU.
"""

import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=4)
    mesh = init_device_mesh("cpu", (2, 2))
    values = distribute_tensor(torch.arange(3.0), mesh, [Replicate(), Replicate()])
    index = distribute_tensor(torch.arange(8) % 3, mesh, [Shard(0), Shard(0)])
    print("expected [0, 1, 2, 0, 1, 2, 0, 1], actual", values[index].full_tensor().tolist())


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 4)
