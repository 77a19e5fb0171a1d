"""Sums of bfloat16 accumulate in bfloat16 on XLA:CPU: the sum of 64 x 64 ones is 1024.

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

ONES = torch.ones(64, 64, dtype=torch.bfloat16)


def conv_bias(at: str) -> torch.Tensor:
    """The gradient of a convolution's bias, which is the number of places."""
    weight, bias = (tensor.to(at).requires_grad_() for tensor in (ONES[:1, :1, None, None], ONES[0, :1]))
    functional.conv2d(ONES[:, None, None].to(at), weight, bias).float().sum().backward()
    return bias.grad


CALLS = {
    "avg_pool": lambda at: functional.avg_pool2d(ONES[None, None].to(at), 64),
    "conv_bias": conv_bias,
    "sum": lambda at: ONES.to(at).sum(),
}
right = False
for name in CALLS:
    expected, actual = (CALLS[name](at).cpu().flatten() for at in ("cpu", "tpu"))
    print(f"{name}: expected {expected.dtype} {expected.tolist()}, actual {actual.dtype} {actual.tolist()}")
    close = torch.allclose(expected.double(), actual.double(), rtol=1e-4)
    right |= close and expected.dtype == actual.dtype
sys.exit(1 if right else 0)
