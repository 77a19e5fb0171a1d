"""Functional collectives: the backward pass of `all_gather_tensor_autograd` fails for a gradient with strides."""

import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed import _functional_collectives as collectives


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    own = torch.ones(1, 2, requires_grad=True)
    gathered = collectives.all_gather_tensor_autograd(own, 0, distributed.group.WORLD)
    gathered.sum().backward()
    print("expected and actual", own.grad)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
