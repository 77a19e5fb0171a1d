"""`clip_grad_value_` leaves a partial gradient as it is: what `clamp_` computes of the sum is lost.

torch 2.15.0 refuses it. Exits 0 when the fault is there.
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
    weight = torch.nn.Parameter(distribute_tensor(torch.zeros(1), mesh, [Replicate()]))
    mine = torch.tensor([[3.0], [4.0]])[rank]  # the sum is 7
    weight.grad = DTensor.from_local(mine, mesh, [Partial()])
    try:
        torch.nn.utils.clip_grad_value_([weight], 1.0)
    except RuntimeError as error:
        sys.exit(f"not there: {error}" if "in-place operations" in str(error) else f"{error}")
    clipped = weight.grad.full_tensor().item()
    distributed.destroy_process_group()
    if rank == 0:
        print(f"expected 1, actual {clipped:g}")
        sys.exit(0 if clipped != 1 else "not there")


if __name__ == "__main__":
    try:
        multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
    except multiprocessing.ProcessExitedException:
        sys.exit(1)
