"""Functional collectives: the backward pass of `all_reduce_coalesced` of a minimum fails.

torch 2.15.0 over gloo. torch 2.9.0 takes the collective for the identity instead.
"""

import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed import _functional_collectives as functional


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    own = torch.full((1,), float(rank), requires_grad=True)
    (least,) = functional.all_reduce_coalesced([own * 1], "min", distributed.group.WORLD)
    functional.wait_tensor(least).sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
