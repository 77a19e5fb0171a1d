"""DTensor on torch_tpu, over its own process group.

The device is XLA:CPU, or a GPU by JAX's plugin, behind our PJRT plugin (`workers.tpu`).
"""

from dataclasses import replace

from workers import sides
from workers.backends import torch_dtensor
from workers.tpu import devices, limits, start

TITLE = "DTensor of TorchTPU on XLA:CPU"
SIDE = "xla"
FRAMEWORK = "torch_tpu"
PROFILE = replace(sides.XLA, extras="torch_tpu", same_as="torch_dtensor")
PRELOAD = start.PRELOAD
unsupported = limits.within(torch_dtensor.unsupported)
processes = torch_dtensor.processes
environment = devices.environment
session = start.sessions(torch_dtensor.session)
