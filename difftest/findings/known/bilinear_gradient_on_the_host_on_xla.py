"""The gradient of bilinear `interpolate` runs on the host.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys
from functools import partial

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch import Tensor, nn
from torch.nn import functional
from torch_xla.debug import metrics

XLA = torch_xla.device()


def doubled(mode: str) -> tuple[partial[Tensor], tuple[Tensor], str]:
    images = torch.ones(1, 1, 4, 4, requires_grad=True)
    module = partial(functional.interpolate, scale_factor=2, mode=mode)
    return module, (images,), f"upsample_{mode}2d_backward"


module, inputs, operator = doubled("bilinear")
metrics.clear_counters()
module = module.to(XLA) if isinstance(module, nn.Module) else module
module(*(tensor.to(XLA) for tensor in inputs)).sum().backward()
torch_xla.sync()
actual = metrics.executed_fallback_ops()
print(f"expected no operator on the host, actual {actual}")
sys.exit(not any(operator in ran for ran in actual))
