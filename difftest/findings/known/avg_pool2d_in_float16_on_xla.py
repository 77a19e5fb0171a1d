"""`avg_pool2d` of float16 over 64 x 64 accumulates in float16 and nearly doubles the mean.

A sum of ones in bfloat16 stays at 256, so that losses, means and the gradients of biases are a fourth of what
they should be, and less. float16 sums overflow at 65504. jax.numpy makes XLA add up in float32; torch_xla
2.9.0 does not. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional

IMAGES = torch.ones(16, 1, 64, 64, dtype=torch.float16)


def call(at):
    return functional.avg_pool2d(IMAGES[:1].to(at), 64)


expected, actual = call("cpu").flatten(), call(torch_xla.device()).cpu().flatten()
print(f"expected {expected.tolist()}, actual {actual.tolist()}")
sys.exit(bool(torch.allclose(expected, actual, rtol=0.02)))
