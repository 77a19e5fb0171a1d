"""`celu` reuses the graph of its first `alpha`.

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


def celu(device: object, argument: float) -> torch.Tensor:
    """`celu` with an `alpha`."""
    return functional.celu(torch.tensor([-0.25, -1.0], device=device), argument)


for argument in (1.0, 2.0):
    expected, actual = (celu(device, argument).tolist() for device in ("cpu", torch_xla.device()))
    print(f"celu {argument}: expected {expected}, actual {actual}")
sys.exit(bool(torch.allclose(torch.tensor(expected), torch.tensor(actual), rtol=0.0001)))
