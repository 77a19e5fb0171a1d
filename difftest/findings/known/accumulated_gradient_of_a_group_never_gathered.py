"""FSDP2 with a reduce dtype: gradients that wait for their sum fail beside a module that no microbatch has used.

torch 2.9.0 over gloo.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.text, self.images = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.text(x)


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = Model()
    fully_shard(model.images, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.set_requires_gradient_sync(False)
    model(torch.ones(2, 4)).sum().backward()  # AttributeError: no attribute '_unsharded_param'


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
