"""FSDP2: a hook that `Tensor.register_hook` puts on a parameter never runs.

torch 2.9.0, silent. The sharded parameter is in no graph. Hooks of `register_post_accumulate_grad_hook` run.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = fully_shard(nn.Linear(4, 2, bias=False), mesh=init_device_mesh("cpu", (2,)))
    model.weight.register_hook(lambda gradient: gradient / 2)
    model(torch.ones(1, 4)).sum().backward()
    actual = model.weight.grad.full_tensor()[0, 0].item()
    if rank == 0:
        print(f"expected 0.5, actual {actual}")
        sys.exit(int(actual == 0.5))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
