"""FSDP1: the derivative that forward mode makes cannot be differentiated where layers are wrapped apart.

torch 2.9.0 and 2.15.0 over gloo. Parameters are sharded again before the pass needs them.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.autograd import forward_ad
from torch.distributed.fsdp import FullyShardedDataParallel


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    cpu = torch.device("cpu")
    layers = [FullyShardedDataParallel(nn.Linear(4, 4), device_id=cpu) for _ in range(2)]
    model = FullyShardedDataParallel(nn.Sequential(layers[0], nn.Tanh(), layers[1]), device_id=cpu)
    with forward_ad.dual_level():
        output, derivative = forward_ad.unpack_dual(
            model(forward_ad.make_dual(torch.ones(2, 4), torch.ones(2, 4)))
        )
    (output.square().sum() + derivative.square().sum()).backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
