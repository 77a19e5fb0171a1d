"""DTensor: `bucketize` of a partial sum looks up each rank's share, and the places are added up.

Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    share = torch.tensor([[6.0, 8.0], [-3.0, -4.0]][rank])  # the sum is [3, 4]
    boundaries = DTensor.from_local(torch.tensor([1.0, 3.5, 5.0]), mesh, [Replicate()])
    places = torch.bucketize(DTensor.from_local(share, mesh, [Partial()]), boundaries)
    actual = places.full_tensor().tolist()
    distributed.destroy_process_group()
    if rank == 0:
        print(f"expected [1, 2], actual {actual}")
        sys.exit(0 if actual != [1, 2] else 3)


if __name__ == "__main__":
    try:
        multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
    except multiprocessing.ProcessExitedException:
        sys.exit(1)
