"""`torch.compile` around `DistributedDataParallel`: TorchDynamo cuts the graph at DDP's buckets.

Inductor compiles the pieces, to C++ on a CPU and to Triton on a GPU. What is compiled must equal eager torch.
"""

from dataclasses import replace

from workers import sides
from workers.backends import torch_ddp
from workers.torch import compiled, process_groups

TITLE = "torch.compile over DDP"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = replace(sides.TORCH, only_named=True)
PRELOAD = compiled.PRELOAD
processes = process_groups.processes
environment = process_groups.environment
unsupported = torch_ddp.unsupported
session = compiled.sessions(torch_ddp.session)
