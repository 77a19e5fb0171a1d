"""`weight_norm` runs on the host.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch_xla.debug import metrics

XLA = torch_xla.device()
module = weight_norm(nn.Linear(4, 3))
inputs = (torch.ones(2, 4),)
metrics.clear_counters()
module = module.to(XLA) if isinstance(module, nn.Module) else module
module(*(tensor.to(XLA) for tensor in inputs)).sum().backward()
torch_xla.sync()
actual = metrics.executed_fallback_ops()
print(f"expected no operator on the host, actual {actual}")
sys.exit(not any("_weight_norm_interface" in ran for ran in actual))
