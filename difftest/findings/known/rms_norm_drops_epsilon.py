"""RMS norm over a sharded dim ignores its epsilon.

The epsilon is added in place to a partial mean, which keeps its value. In-place operators on partial tensors
are pytorch/pytorch#163374; nobody has reported the effect on RMS norm.

torch 2.9.0, two ranks over gloo. Exits 0 when the fault is there. Later ones refuse to add in place.
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def main(rank: int, rendezvous: str) -> None:
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=2)
    rows = distribute_tensor(torch.ones(1, 4), init_device_mesh("cpu", (2,)), [Shard(1)])
    mean = rows.mean(1, keepdim=True)
    try:
        added = mean.add_(3.0).full_tensor().item()
        norm = torch.rms_norm(rows, (4,), None, 3.0).full_tensor()[0, 0].item()
    except RuntimeError as error:
        added = norm = str(error)[:100]
    if rank == 0:
        print(f"expected 1 + 3 = 4, actual {added}")
        print(f"expected 1 / sqrt(1 + 3) = 0.5, actual {norm}", flush=True)
    os._exit(0 if isinstance(norm, float) and norm > 0.9 else 1)


if __name__ == "__main__":
    try:
        torch.multiprocessing.spawn(main, (f"file://{tempfile.mkdtemp()}/rendezvous",), nprocs=2)
    except torch.multiprocessing.ProcessExitedException:
        sys.exit(1)
