"""A partial sum that leaves a DTensor and comes back gets its gradient as often as there are ranks.

torch 2.9.0. `from_local` gives the gradient as a replica, and `to_local` takes that for a part of a sum. Silent.
Exits 0 while the fault is there.
"""

import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.ones(2), mesh, [Shard(0)]).requires_grad_()
    partial = x.sum()
    again = DTensor.from_local(partial.to_local(), mesh, partial.placements)
    again.redistribute(mesh, [Replicate()]).backward()
    actual = x.grad.full_tensor().tolist()
    if rank == 0:
        print(f"expected [1.0, 1.0], actual {actual}")
    raise SystemExit(actual == [1.0, 1.0])


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
