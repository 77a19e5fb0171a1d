"""`index_reduce` along a dim of a matrix kills the process by SIGABRT: a check demands an index of the same rank.

torch's index has one dim, whatever the tensor has.
torch_tpu 0.2.0 with torch 2.11.0, on XLA:CPU, and compiled on an H200: `TPU_LIBRARY_PATH` names the PJRT plugin of
`difftest environments make torch_tpu`.
"""

import os

os.environ |= {"TPU_SKIP_MDS_QUERY": "1"}

import torch
from torch_tpu import _loader

_loader._init_device("tpu")  # torch does this itself where it finds a TPU

index, source = torch.tensor([0, 1, 2, 3, 0, 1]), torch.ones(6, 4)
reduced = torch.zeros(4, 4, device="tpu").index_reduce(0, index.to("tpu"), source.to("tpu"), "amax")
print(reduced.tolist())
