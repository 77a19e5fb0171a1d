"""FSDP2: a state dict that was taken before the first forward pass has old values where shards are uneven.

The first forward pass pads the shards, and so gives parameters other memory. torch 2.9.0 over gloo. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = fully_shard(nn.Linear(1, 3, bias=False), mesh=init_device_mesh("cpu", (2,)))
    kept = model.state_dict()["weight"]
    model(torch.ones(1, 1)).sum().backward()
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    expected, actual = model.weight.full_tensor(), kept.full_tensor()
    print(f"expected {expected.flatten().tolist()}, actual {actual.flatten().tolist()}")
    sys.exit(torch.equal(actual, expected))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
