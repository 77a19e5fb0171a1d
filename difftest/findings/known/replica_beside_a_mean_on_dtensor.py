"""DTensor cannot bring a replica to a tensor of which the ranks hold shares of a mean, as `cat` wants it.

A mean over a cut dim leaves such a tensor.
"""

import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, distribute_tensor


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    mean = DTensor.from_local(torch.ones(2), mesh, [Partial("avg")])
    torch.cat((mean, distribute_tensor(torch.ones(2), mesh, [Replicate()])))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
