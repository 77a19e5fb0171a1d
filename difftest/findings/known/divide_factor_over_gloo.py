"""FSDP2: `set_gradient_divide_factor` needs a reduction that gloo lacks, where `fully_shard` itself does without.

torch 2.9.0 over gloo.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = fully_shard(nn.Linear(4, 2), mesh=init_device_mesh("cpu", (2,)))
    model.set_gradient_divide_factor(1.0)
    model(torch.ones(1, 4)).sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
