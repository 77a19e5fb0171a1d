"""`clip_grad_norm_` uses the norms of a partial sum's pieces instead of the norm of the sum.

pytorch#159856 mended it. Exits 0 when the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, distribute_tensor


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    weight = torch.nn.Parameter(distribute_tensor(torch.zeros(2), mesh, [Replicate()]))
    # The norms of the pieces are 3 and 4; the norm of their sum is 5.
    mine = torch.tensor([[3.0, 0.0], [0.0, 4.0]])[rank]
    weight.grad = DTensor.from_local(mine, mesh, [Partial()])
    norm = torch.nn.utils.clip_grad_norm_([weight], 1.0).full_tensor().item()
    distributed.destroy_process_group()
    if rank == 0:
        print(f"expected norm 5, actual {norm:g}")
        sys.exit(0 if abs(norm - 5) > 0.1 else 3)


if __name__ == "__main__":
    try:
        multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
    except multiprocessing.ProcessExitedException:
        sys.exit(1)
