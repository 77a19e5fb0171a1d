"""DDP: forward mode fails with a static graph, and where unused parameters are looked for.

torch 2.9.0 and 2.15.0 over gloo. A function of DDP's own, which the output goes through then, has no `jvp`.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.autograd import forward_ad
from torch.nn.parallel import DistributedDataParallel


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = DistributedDataParallel(nn.Linear(4, 4), static_graph=True)
    with forward_ad.dual_level():
        output, derivative = forward_ad.unpack_dual(
            model(forward_ad.make_dual(torch.ones(2, 4), torch.ones(2, 4)))
        )
    (output.square().sum() + derivative.square().sum()).backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
