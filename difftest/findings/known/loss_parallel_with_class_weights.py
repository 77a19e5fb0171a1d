"""`loss_parallel` with weights of classes looks up that of an ignored target in the backward pass: an index out of bounds.

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
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    scores, targets = torch.arange(8.0).reshape(2, 4), torch.tensor([1, -100])
    sharded = distribute_tensor(scores, mesh, [Shard(1)]).requires_grad_()
    with loss_parallel():
        cross_entropy(sharded, targets, torch.ones(4)).backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
