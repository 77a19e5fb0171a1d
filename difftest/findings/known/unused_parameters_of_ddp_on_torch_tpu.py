"""DDP with `find_unused_parameters` fails in its backward pass on torch_tpu: memory that it pins is not pinned.

torch_tpu 0.2.0 with torch 2.11.0 on an H200: `TPU_LIBRARY_PATH` names difftest's PJRT plugin, made with
`PJRT_DEVICE=CUDA`. On XLA:CPU the stand-in for a TPU lacks memory of the host.
"""

import os
import tempfile

os.environ |= {"TPU_SKIP_MDS_QUERY": "1"}

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch_tpu import _loader

_loader._init_device("tpu")  # torch does this itself where it finds a TPU

dist.init_process_group("tpu_dist", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
model = DistributedDataParallel(torch.nn.Linear(4, 2).to("tpu"), find_unused_parameters=True)
model(torch.ones(3, 4, device="tpu")).sum().backward()
print(model.module.weight.grad.cpu())
