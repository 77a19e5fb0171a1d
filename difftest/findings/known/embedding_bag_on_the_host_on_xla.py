"""`EmbeddingBag` runs on the host.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch import nn
from torch_xla.debug import metrics

XLA = torch_xla.device()
IDS = torch.arange(4)
module = nn.EmbeddingBag(8, 3, mode="mean")
inputs = IDS, IDS
metrics.clear_counters()
module = module.to(XLA) if isinstance(module, nn.Module) else module
module(*(tensor.to(XLA) for tensor in inputs)).sum().backward()
torch_xla.sync()
actual = metrics.executed_fallback_ops()
print(f"expected no operator on the host, actual {actual}")
sys.exit(not any("_embedding_bag" in ran for ran in actual))
