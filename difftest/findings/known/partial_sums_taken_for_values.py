"""DTensor computes `amax` of the shares of a partial sum, and adds a number to every share in `add_`.

Both must be computed of the sum. Exits 0 while the faults are there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    share = torch.tensor([[6.0, 8.0], [-3.0, -4.0]][rank])  # the sum is [3, 4]
    greatest = DTensor.from_local(share, mesh, [Partial()]).amax().full_tensor().item()
    try:
        more = str(DTensor.from_local(share.clone(), mesh, [Partial()]).add_(1.0).full_tensor().tolist())
    except RuntimeError as error:  # later releases refuse it
        more = str(error)[:100]
    distributed.destroy_process_group()
    if rank == 0:
        print(f"expected 4 and [4, 5], actual {greatest:g} and {more}")
        sys.exit(0 if greatest != 4 or more == "[5.0, 6.0]" else 3)


if __name__ == "__main__":
    try:
        multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
    except multiprocessing.ProcessExitedException:
        sys.exit(1)
