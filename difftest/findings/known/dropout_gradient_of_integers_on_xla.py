"""`native_dropout_backward` of integers gives integers, where torch gives floats.

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
    return torch.ops.aten.native_dropout_backward(
        torch.ones(1, dtype=torch.int32, device=at), torch.ones(1, dtype=torch.bool, device=at), 1.5
    )


expected, actual = call("cpu"), call(torch_xla.device()).cpu()
print(f"expected {expected.dtype} {expected.tolist()}, actual {actual.dtype} {actual.tolist()}")
sys.exit(expected.dtype == actual.dtype)
