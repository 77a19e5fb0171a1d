"""`where` takes the dtype of a 0-dim tensor, which does not take part in torch's promotion.

The sums are those of XLA on the CPU: a TPU may add up bfloat16 in float32 by itself. torch_tpu 0.2.0 with
torch 2.15.0, on XLA:CPU: `TPU_LIBRARY_PATH` names the PJRT plugin of `difftest environments make torch_tpu`.
Exits 0 while the fault is there.
"""

import os
import sys

os.environ |= {"TPU_SKIP_MDS_QUERY": "1"}
import torch
from torch_tpu import _loader

_loader._init_device("tpu")  # torch does this itself where it finds a TPU
ONES = torch.ones(64, 64, dtype=torch.bfloat16)


def call(at):
    return torch.where(ONES[0].to(at) > 0, torch.tensor(1.0, device=at), ONES[0].to(at))[:1]


expected, actual = (call(at).cpu().flatten() for at in ("cpu", "tpu"))
print(f"expected {expected.dtype} {expected.tolist()}, actual {actual.dtype} {actual.tolist()}")
close = torch.allclose(expected.double(), actual.double(), rtol=0.0001)
sys.exit(bool(close and expected.dtype == actual.dtype))
