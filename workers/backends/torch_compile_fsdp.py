"""`torch.compile` around what `fully_shard` made of the module: TorchDynamo breaks graphs at FSDP's hooks."""

from dataclasses import replace

from workers import sides
from workers.backends import torch_fsdp
from workers.torch import compiled, process_groups

TITLE = "torch.compile over FSDP2"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = replace(sides.TORCH, only_named=True)
PRELOAD = compiled.PRELOAD
processes = process_groups.processes
environment = process_groups.environment
unsupported = torch_fsdp.unsupported
session = compiled.sessions(torch_fsdp.session)
