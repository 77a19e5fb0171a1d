"""Inside `loss_parallel`, the gradient of a `log_softmax` that no `nll_loss` follows is the identity's.

torch 2.9.0 and 2.15.0 over gloo. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.functional import log_softmax


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    scores, weights = torch.arange(8.0).reshape(2, 4).sin(), torch.arange(8.0).reshape(2, 4)
    reference = scores.clone().requires_grad_()
    (log_softmax(reference, -1) * weights).sum().backward()
    cut = distribute_tensor(scores, mesh, [Shard(1)]).requires_grad_()
    with loss_parallel():
        (log_softmax(cut, -1) * distribute_tensor(weights, mesh, [Shard(1)])).sum().backward()
    expected, actual = reference.grad, cut.grad.full_tensor()
    print(
        f"expected {expected[0].tolist()}, actual {actual[0].tolist()}; the weights are {weights[0].tolist()}"
    )
    sys.exit(torch.allclose(actual, expected))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
