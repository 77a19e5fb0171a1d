"""`torch.distributed.checkpoint` does not save tensors of torch_tpu on a GPU: `AssertionError: Tensor must be on CPU`.

torch_tpu 0.2.0 with torch 2.11.0 on an H200: `TPU_LIBRARY_PATH` names difftest's PJRT plugin, made with
`PJRT_DEVICE=CUDA`. On XLA:CPU the stand-in for a TPU lacks the memory of the host that saving takes.
"""

import os
import tempfile

os.environ |= {"TPU_SKIP_MDS_QUERY": "1"}

import torch
import torch.distributed.checkpoint
from torch_tpu import _loader

_loader._init_device("tpu")  # torch does this itself where it finds a TPU

weights = {"weight": torch.ones(3, device="tpu")}
torch.distributed.checkpoint.save(weights, checkpoint_id=tempfile.mkdtemp(), no_dist=True)
