"""`torch.compile` around what `parallelize_module` made of the module, beside `fully_shard` on other axes."""

from dataclasses import replace

from workers import sides
from workers.backends import torch_tp
from workers.torch import compiled, process_groups

TITLE = "torch.compile over parallelize_module"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = replace(sides.TORCH, only_named=True)
PRELOAD = compiled.PRELOAD
processes = process_groups.processes
environment = process_groups.environment
unsupported = torch_tp.unsupported
session = compiled.sessions(torch_tp.session, compiled.traced)
