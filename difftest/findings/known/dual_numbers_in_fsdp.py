"""FSDP2: dual numbers fail in layers that are wrapped apart, as a function of FSDP2's own has no right `jvp`.

torch 2.9.0 over gloo has none, and that of 2.15.0 returns no view. Where the model is wrapped as a whole, its inputs have
no gradient and the function is not called.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.autograd import forward_ad
from torch.distributed.fsdp import fully_shard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    for module in (model[0], model[1], model):
        fully_shard(module)
    with forward_ad.dual_level():
        output, derivative = forward_ad.unpack_dual(
            model(forward_ad.make_dual(torch.ones(2, 4), torch.ones(2, 4)))
        )
    (output.square().sum() + derivative.square().sum()).backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
