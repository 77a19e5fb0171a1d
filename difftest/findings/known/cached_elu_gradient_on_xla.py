"""The gradients of `elu` and `celu` reuse the graph of the first `alpha`.

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


def elu_gradient(device: object, argument: float) -> torch.Tensor:
    """The gradient at 0 of `elu` with an `alpha`, which it is."""
    zero = torch.zeros(1, device=device, requires_grad=True)
    return torch.autograd.grad(functional.elu(zero, argument), zero)[0]


for argument in (1.0, 2.0):
    expected, actual = (elu_gradient(device, argument).tolist() for device in ("cpu", torch_xla.device()))
    print(f"elu_gradient {argument}: expected {expected}, actual {actual}")
sys.exit(bool(torch.allclose(torch.tensor(expected), torch.tensor(actual), rtol=0.0001)))
