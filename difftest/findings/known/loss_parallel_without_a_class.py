"""`loss_parallel` fails on a rank that has none of the classes.

torch 2.9.0 over gloo.
"""

import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.functional import cross_entropy


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=4)
    mesh = init_device_mesh("cpu", (4,))
    scores, targets = torch.arange(6.0).reshape(2, 3), torch.tensor([1, 2])
    with loss_parallel():
        cross_entropy(distribute_tensor(scores, mesh, [Shard(1)]), targets)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 4)
