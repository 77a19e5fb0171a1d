"""`DistributedDataParallel` on torch_tpu, over its own process group.

The device is XLA:CPU, or a GPU by JAX's plugin, behind our PJRT plugin (`workers.tpu`).
"""

from dataclasses import replace

from workers import sides
from workers.backends import torch_ddp
from workers.tpu import devices, limits, start

TITLE = "DDP of TorchTPU on XLA:CPU"
SIDE = "xla"
FRAMEWORK = "torch_tpu"
PROFILE = replace(sides.XLA, extras="torch_tpu", same_as="torch_ddp")
PRELOAD = start.PRELOAD
unsupported = limits.within(torch_ddp.unsupported)
processes = torch_ddp.processes
environment = devices.environment
session = start.sessions(torch_ddp.session)
