"""`_fused_adam` fails: its sharding rule gives two results for five.

torch 2.9.0. The process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def cut(*shape: int) -> DTensor:
    return distribute_tensor(torch.rand(shape), mesh, [Shard(0)]).requires_grad_()


def fused_adam() -> None:
    lists = [[cut(4)] for _ in range(4)]
    options = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}
    torch.ops.aten._fused_adam(*lists, [], [torch.ones(())], **options, amsgrad=False, maximize=False)


print("expected a result, actual", fused_adam())
