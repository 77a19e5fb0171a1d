"""The backward of layer norm with a sharded weight receives the local shard instead of the whole weight.

Exits 0 when the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    weight, bias = (torch.nn.Parameter(distribute_tensor(torch.ones(4), mesh, [Shard(0)])) for _ in range(2))
    rows = distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)]).requires_grad_()
    try:
        torch.nn.functional.layer_norm(rows, (4,), weight, bias).sum().backward()
    except RuntimeError as error:
        if rank == 0:
            print("expected a gradient, actual", error)
        sys.exit(0 if "normalized_shape" in str(error) else 3)
    sys.exit(3)


if __name__ == "__main__":
    try:
        multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
    except multiprocessing.ProcessExitedException:
        sys.exit(1)
