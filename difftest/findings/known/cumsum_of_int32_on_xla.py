"""`cumsum` of int32 gives int32 and overflows, where torch gives int64.

`where` and `xlogy` take the dtype of a number without dims, which counts in torch only if its kind is higher.
The gradient of dropout of whole numbers is of whole numbers, and loses what its factor makes of them.
torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla


def call(at):
    return torch.full((2,), 2**30, dtype=torch.int32, device=at).cumsum(0)


expected, actual = call("cpu"), call(torch_xla.device()).cpu()
print(f"expected {expected.dtype} {expected.tolist()}, actual {actual.dtype} {actual.tolist()}")
sys.exit(expected.dtype == actual.dtype)
