"""Modules of torch of which torch_xla runs a part on the host, so that a step is cut in pieces; names select.

torch_xla 2.9.0. Exits 0 when all faults are there.
"""

import os
import sys
from functools import partial

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")

import torch
import torch_xla
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm
from torch_xla.debug import metrics

XLA = torch_xla.device()
IDS = torch.arange(4)


def doubled(mode: str) -> tuple[partial[Tensor], tuple[Tensor], str]:
    images = torch.ones(1, 1, 4, 4, requires_grad=True)
    module = partial(functional.interpolate, scale_factor=2, mode=mode)
    return module, (images,), f"upsample_{mode}2d_backward"


FAULTS = {
    "embedding_bag": (nn.EmbeddingBag(8, 3, mode="mean"), (IDS, IDS), "_embedding_bag"),
    "weight_norm": (weight_norm(nn.Linear(4, 3)), (torch.ones(2, 4),), "_weight_norm_interface"),
    "bilinear": doubled("bilinear"),
    "nearest": doubled("nearest"),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    module, inputs, operator = FAULTS[name]
    metrics.clear_counters()
    module = module.to(XLA) if isinstance(module, nn.Module) else module
    module(*(tensor.to(XLA) for tensor in inputs)).sum().backward()
    torch_xla.sync()
    actual = metrics.executed_fallback_ops()
    print(f"{name}: expected no operator on the host, actual {actual}")
    missing += [] if any(operator in ran for ran in actual) else [name]
sys.exit(f"not there: {missing}" if missing else 0)
