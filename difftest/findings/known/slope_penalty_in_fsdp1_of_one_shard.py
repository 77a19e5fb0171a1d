"""FSDP1 that shards nothing leaves no gradients of a loss with a gradient in it.

torch 2.9.0 and 2.15.0. The gradient inside the loss ends FSDP's backward pass, which takes the parameters away
before the loss is differentiated. Silent. With several shards it raises (pytorch#172543). Exits 0 while the fault is
there.
"""

import sys
import tempfile

import torch
from torch import distributed, nn
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
model = FullyShardedDataParallel(
    nn.Linear(8, 3),
    sharding_strategy=ShardingStrategy.NO_SHARD,
    use_orig_params=True,
    device_id=torch.device("cpu"),
)
parameters = list(model.parameters())
x = torch.randn(4, 8, requires_grad=True)
output = model(x)
(slope,) = torch.autograd.grad(output, x, torch.ones_like(output), create_graph=True)
(output.square().mean() + slope.square().sum()).backward()
gradients = sum(parameter.grad is not None for parameter in parameters)
left = len(list(model.parameters()))
print(f"expected 2 gradients and 2 parameters, actual {gradients} and {left}")
distributed.destroy_process_group()
sys.exit(gradients == 2)
