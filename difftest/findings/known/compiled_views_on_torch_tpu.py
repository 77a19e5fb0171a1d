"""`torch.compile`: a result and a view of it do not share memory, so a write into the view is lost.

Without `torch.compile` they share it.
torch_tpu 0.2.0 with torch 2.15.0, on XLA:CPU: `TPU_LIBRARY_PATH` names the PJRT plugin of
`difftest environments make torch_tpu`.
Exits 0 while the fault is there.
"""

import os
import sys

os.environ |= {"TPU_SKIP_MDS_QUERY": "1", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}

import torch
from torch_tpu import _loader

_loader._init_device("tpu")  # torch does this itself where it finds a TPU

whole, part = torch.compile(lambda x: (y := x + 1, y[:1]))(torch.zeros(2, 1, device="tpu"))
part.fill_(7.0)
print(f"expected [[7.0], [1.0]], actual {whole.tolist()}")
sys.exit(whole.tolist() != [[1.0], [1.0]])
