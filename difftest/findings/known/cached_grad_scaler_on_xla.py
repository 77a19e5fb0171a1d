"""A second `GradScaler` has the factors and the interval of the first.

The hash of these operators' nodes leaves out the argument (torch_xla/csrc/ops: `Celu` in ops.cpp,
avg_pool_nd.cpp, amp_update_scale.cpp). A process that has run the operator once gets the first result for
every later argument. torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla


def grad_scaler(device: object, argument: float) -> torch.Tensor:
    """The scale of a `GradScaler` with a growth factor after a step without overflow."""
    scale, overflow = (torch.tensor([number], device=device) for number in (8.0, 0.0))
    steps = torch.tensor([0], dtype=torch.int32, device=device)
    return torch._amp_update_scale_(scale, steps, overflow, argument, 0.5, 1)


for argument in (1.0, 2.0):
    expected, actual = (grad_scaler(device, argument).tolist() for device in ("cpu", torch_xla.device()))
    print(f"grad_scaler {argument}: expected {expected}, actual {actual}")
sys.exit(bool(torch.allclose(torch.tensor(expected), torch.tensor(actual), rtol=0.0001)))
