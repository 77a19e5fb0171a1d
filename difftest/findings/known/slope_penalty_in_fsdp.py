"""FSDP2: a loss with a gradient in it cannot be differentiated, as the parameters are sharded again by then.

torch 2.9.0 over gloo. The first of the two backward passes shards them, and the second needs them. With
`set_reshard_after_backward(False)` and `reshard_after_forward=False` it is right.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    mesh = init_device_mesh("cpu", (2,))
    for module in (model[0], model[2], model):
        fully_shard(module, mesh=mesh)
    inputs = torch.ones(2, 4, requires_grad=True)
    (slope,) = torch.autograd.grad(model(inputs).sum(), inputs, create_graph=True)
    slope.square().sum().backward()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
