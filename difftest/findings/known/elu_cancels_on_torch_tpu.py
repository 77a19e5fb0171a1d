"""`elu` computes exp(x) - 1 without expm1: at -1e-5 it is 0.1 % off.

The sums are those of XLA on the CPU: a TPU may add up bfloat16 in float32 by itself. torch_tpu 0.2.0 with
torch 2.15.0, on XLA:CPU: `TPU_LIBRARY_PATH` names the PJRT plugin of `difftest environments make torch_tpu`.
Exits 0 while the fault is there.
"""

import os
import sys

os.environ |= {"TPU_SKIP_MDS_QUERY": "1"}
import torch
from torch.nn import functional
from torch_tpu import _loader

_loader._init_device("tpu")  # torch does this itself where it finds a TPU


def call(at):
    return functional.elu(torch.tensor([-1e-05], device=at))


expected, actual = (call(at).cpu().flatten() for at in ("cpu", "tpu"))
print(f"expected {expected.dtype} {expected.tolist()}, actual {actual.dtype} {actual.tolist()}")
close = torch.allclose(expected.double(), actual.double(), rtol=0.0001)
sys.exit(bool(close and expected.dtype == actual.dtype))
