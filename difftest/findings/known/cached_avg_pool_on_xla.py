"""`avg_pool` reuses the graph of its first `divisor_override`.

The hash of these operators' nodes leaves out the argument (torch_xla/csrc/ops: `Celu` in ops.cpp,
avg_pool_nd.cpp, amp_update_scale.cpp). A process that has run the operator once gets the first result for
every later argument. torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional


def avg_pool(device: object, argument: float) -> torch.Tensor:
    """`avg_pool2d` with a `divisor_override`."""
    return functional.avg_pool2d(torch.ones(1, 1, 2, 2, device=device), 2, divisor_override=int(argument))


for argument in (1.0, 2.0):
    expected, actual = (avg_pool(device, argument).tolist() for device in ("cpu", torch_xla.device()))
    print(f"avg_pool {argument}: expected {expected}, actual {actual}")
sys.exit(bool(torch.allclose(torch.tensor(expected), torch.tensor(actual), rtol=0.0001)))
