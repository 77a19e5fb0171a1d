"""`conv3d` of float16 accumulates in float16: the sum of 16 x 16 x 16 ones is 3968.

torch_xla 2.9.0 on XLA:CPU. `conv1d` and `conv2d` give 4096, and so does `conv3d` in jaxlib 0.12.0. Exits 0 while
the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional

ONES = torch.ones(1, 1, 16, 16, 16, dtype=torch.float16)


def call(at):
    return functional.conv3d(ONES.to(at), ONES.to(at)).flatten()


expected, actual = call("cpu"), call(torch_xla.device()).cpu()
print(f"expected {expected.tolist()}, actual {actual.tolist()}")
sys.exit(bool(torch.allclose(expected, actual, rtol=0.005)))
