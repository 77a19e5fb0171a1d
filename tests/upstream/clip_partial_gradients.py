"""`clip_grad_norm_` takes the norm of a partial sum's pieces for that of the sum (compare pytorch#149768). Exits 0 when it does."""

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
    mine = torch.tensor([[3.0, 0.0], [0.0, 4.0]])[
        rank
    ]  # the pieces' norms are 3 and 4, that of their sum is 5
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
