"""`ZeroRedundancyOptimizer` with `bucket_cap_mb_all_gather` fails unless `pin_layout=False`, which is not its default.

`xm.all_gather_bucketized` refuses to pin layouts. torch_xla 2.9.0 on the CPU, one device.
"""

import os

os.environ["PJRT_DEVICE"] = "CPU"
import torch
import torch_xla
from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer

weight = torch.nn.Parameter(torch.ones(2, device=torch_xla.device()))
optimizer = ZeroRedundancyOptimizer([weight], torch.optim.SGD, lr=0.5, bucket_cap_mb_all_gather=1)
weight.sum().backward()
optimizer.step()
