"""Batch norm in training leaves its running mean and variance as they were, and counts the batch.

Evaluation then normalizes by a mean of 0 and a variance of 1. torchax 0.0.6 and 0.0.13. Exits 0 while the
fault is there.
"""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import torch
import torchax

torchax.enable_globally()
with torch.device("cpu"):
    norms = [torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2)]
    rows = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
norms[1].to("jax")
expected, actual = [], []
for norm, fed, read in ((norms[0], rows, expected), (norms[1], rows.to("jax"), actual)):
    norm(fed)
    for buffer in (norm.running_mean, norm.running_var, norm.num_batches_tracked):
        read.append(buffer.cpu().tolist())
print(f"expected mean, variance and batches {expected}, actual {actual}")
sys.exit(actual != [[0.0, 0.0], [1.0, 1.0], 1])
