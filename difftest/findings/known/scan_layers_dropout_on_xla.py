"""`scan_layers` fails for layers with dropout, or with a batch norm.

torch_xla 2.9.0 on the CPU. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch import nn
from torch_xla.experimental.scan_layers import scan_layers


def attempt(last: nn.Module) -> str:
    layers = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), last) for _ in range(2)]).to("xla")
    try:
        scan_layers(layers, torch.ones(2, 4).to("xla").requires_grad_()).sum().backward()
        torch_xla.sync(wait=True)
    except Exception as error:
        return type(error).__name__
    return "runs"


actual = {type(last).__name__: attempt(last) for last in (nn.Tanh(), nn.Dropout(0.5), nn.BatchNorm1d(4))}
print(f"expected all to run, actual {actual}")
sys.exit(set(actual.values()) == {"runs"})
