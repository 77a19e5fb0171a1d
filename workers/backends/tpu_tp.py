"""`parallelize_module`, with `fully_shard` over the other axes, on torch_tpu.

The device is XLA:CPU, or a GPU by JAX's plugin, behind our PJRT plugin (`workers.tpu`).
"""

from dataclasses import replace

from workers import sides
from workers.backends import torch_tp
from workers.tpu import devices, limits, start

TITLE = "parallelize_module of TorchTPU on XLA:CPU"
SIDE = "xla"
FRAMEWORK = "torch_tpu"
PROFILE = replace(sides.XLA, extras="torch_tpu", same_as="torch_tp")
PRELOAD = start.PRELOAD
unsupported = limits.within(torch_tp.unsupported)
processes = torch_tp.processes
environment = devices.environment
session = start.sessions(torch_tp.session)
