"""torch_xla takes a compiled graph for another one that differs in an argument; names select.

The hash of these operators' nodes leaves out the argument (torch_xla/csrc/ops: `Celu` in ops.cpp,
avg_pool_nd.cpp, amp_update_scale.cpp). A process that has run the operator once gets the first
result for every later argument.
torch_xla 2.9.0. Exits 0 when the faults are there.
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


def elu_gradient(device: object, argument: float) -> torch.Tensor:
    """The gradient at 0 of `elu` with an `alpha`, which it is."""
    zero = torch.zeros(1, device=device, requires_grad=True)
    return torch.autograd.grad(functional.elu(zero, argument), zero)[0]


def avg_pool(device: object, argument: float) -> torch.Tensor:
    """`avg_pool2d` with a `divisor_override`."""
    return functional.avg_pool2d(torch.ones(1, 1, 2, 2, device=device), 2, divisor_override=int(argument))


def grad_scaler(device: object, argument: float) -> torch.Tensor:
    """The scale of a `GradScaler` with a growth factor after a step without overflow."""
    scale, overflow = (torch.tensor([number], device=device) for number in (8.0, 0.0))
    steps = torch.tensor([0], dtype=torch.int32, device=device)
    return torch._amp_update_scale_(scale, steps, overflow, argument, 0.5, 1)


FAULTS = {
    "celu": celu,
    "elu_gradient": elu_gradient,
    "avg_pool": avg_pool,
    "grad_scaler": grad_scaler,
}
right = False
for name in sys.argv[1:] or FAULTS:
    for argument in (1.0, 2.0):
        expected, actual = (FAULTS[name](device, argument).tolist() for device in ("cpu", torch_xla.device()))
        print(f"{name} {argument}: expected {expected}, actual {actual}")
    right |= torch.allclose(torch.tensor(expected), torch.tensor(actual), rtol=1e-4)
sys.exit(1 if right else 0)
