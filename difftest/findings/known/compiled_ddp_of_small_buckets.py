"""`torch.compile` of DDP with `bucket_cap_mb` below 1 fails: TorchDynamo takes 1 MiB for the first bucket.

Without `torch.compile` DDP trains so. torch 2.9.0 and 2.15.0 over gloo.
"""

import tempfile

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
model = DistributedDataParallel(torch.nn.Linear(2, 2), bucket_cap_mb=0.5)
expected = model(torch.ones(1, 2)).shape
actual = str(torch.compile(model, backend="eager")(torch.ones(1, 2)).shape)
print(f"expected {expected}, actual {actual}")
distributed.destroy_process_group()
