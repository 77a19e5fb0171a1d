"""Batch norm's running variance on XLA is that of the biased estimator.

`torch.nn.BatchNorm1d` says that "the value stored in the moving average of the input variance is calculated
via the unbiased estimator". torch_xla stores the biased one, which is (n - 1) / n of it for n values a
channel: a model that is trained on XLA is evaluated with other statistics.

torch_xla 2.9.0 on the CPU. Exits 0 when the fault is there.
"""

import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla

rows = torch.tensor([[0.0], [2.0]])
norm = torch.nn.BatchNorm1d(1, momentum=1.0).to(torch_xla.device())
norm(rows.to(torch_xla.device()))
actual = norm.running_var.item()
print(f"expected {rows.var().item()}, the unbiased variance, actual {actual}")
sys.exit(0 if actual == rows.var(unbiased=False).item() else 1)
