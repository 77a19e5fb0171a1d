"""`gradient_accumulation` updates the statistics of a batch norm by the first part alone.

What the step writes into a buffer is left over from its trace, which is of the first part; the loop does not carry
it. torch_xla 2.9.0 on the CPU. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch_xla.experimental.gradient_accumulation import gradient_accumulation

parts = torch.arange(12.0).reshape(3, 2, 2)
model, host = torch.nn.BatchNorm1d(2, momentum=0.5).to("xla"), torch.nn.BatchNorm1d(2, momentum=0.5)
gradient_accumulation(lambda part: model(part).square().sum(), (parts.to("xla"),), model)
torch_xla.sync()
for part in parts:
    host(part)
actual = model.running_mean.tolist(), model.num_batches_tracked.item()
expected = host.running_mean.tolist(), host.num_batches_tracked.item()
print(f"expected running mean and count {expected}, actual {actual}")
sys.exit(actual == expected)
