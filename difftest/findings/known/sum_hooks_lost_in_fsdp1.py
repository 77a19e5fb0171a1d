"""FSDP1 never calls hooks that `register_post_accumulate_grad_hook` gave its parameters.

The parameters that users see are views of a flat one, into which gradients are accumulated. FSDP2 calls them.
torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.fsdp import FullyShardedDataParallel


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    linear, host = nn.Linear(2, 2, bias=False), torch.device("cpu")
    model = FullyShardedDataParallel(linear, device_id=host, use_orig_params=True)
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda one: one.grad.zero_())
    model(torch.ones(1, 2)).sum().backward()
    actual = next(model.parameters()).grad.abs().sum().item()
    print(f"rank {rank}: expected gradients that the hook made 0, actual a sum of {actual}")
    sys.exit(actual == 0.0)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
