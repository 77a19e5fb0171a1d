"""`torch.compile` around a module of DTensors."""

from dataclasses import replace

from workers import sides
from workers.backends import torch_dtensor
from workers.torch import compiled, process_groups
from workers.training.refusals import for_modules_only

TITLE = "torch.compile over DTensor"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = replace(sides.TORCH, only_named=True)
PRELOAD = compiled.PRELOAD
processes = process_groups.processes
environment = process_groups.environment
unsupported = for_modules_only(torch_dtensor.unsupported)
session = compiled.sessions(torch_dtensor.session, compiled.traced)
