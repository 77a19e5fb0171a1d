"""`loss_parallel` over (batch, class, height, width) gives each pixel the gradient of the transposed one.

Its backward brings the classes to the end by exchanging two dims, which exchanges height and width. The loss is right.
torch 2.9.0 and 2.15.0 over gloo. Exits 0 while the fault is there.
"""

import sys
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
    scores, targets = torch.arange(16.0).reshape(1, 4, 2, 2).sin(), torch.tensor([[[0, 1], [2, 3]]])
    reference = scores.clone().requires_grad_()
    cross_entropy(reference, targets).backward()
    cut = distribute_tensor(scores, mesh, [Shard(1)]).requires_grad_()
    with loss_parallel():
        cross_entropy(cut, targets).backward()
    expected, actual = reference.grad, cut.grad.full_tensor()
    print(f"expected {expected[0, 1].tolist()}, actual {actual[0, 1].tolist()}")
    sys.exit(torch.allclose(actual, expected))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
