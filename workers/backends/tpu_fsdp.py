"""FSDP2, `fully_shard`, on torch_tpu, over its own process group.

The device is XLA:CPU, or a GPU by JAX's plugin, behind our PJRT plugin (`workers.tpu`).
"""

from dataclasses import replace

from workers import sides
from workers.backends import torch_fsdp
from workers.tpu import devices, limits, start

TITLE = "FSDP2 of TorchTPU on XLA:CPU"
SIDE = "xla"
FRAMEWORK = "torch_tpu"
PROFILE = replace(sides.XLA, extras="torch_tpu", same_as="torch_fsdp")
PRELOAD = start.PRELOAD
unsupported = limits.within(torch_fsdp.unsupported)
processes = torch_fsdp.processes
environment = devices.environment
session = start.sessions(torch_fsdp.session)
