"""`softshrink`, `threshold` and the gradient of `smooth_l1_loss` on XLA turn NaN into a number.

That hides that training has diverged. They compare with a limit, and take the other branch where the
comparison is false, as it is for NaN. torch's own kernels keep NaN. torch_xla 2.9.0.
Exits 0 when the faults are there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional


def gradient_of_smooth_l1(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().requires_grad_()
    functional.smooth_l1_loss(tensor, torch.zeros_like(tensor)).backward()
    return tensor.grad


FAULTS = {
    "softshrink": functional.softshrink,
    "smooth_l1": gradient_of_smooth_l1,
    "threshold": lambda tensor: functional.threshold(tensor, 0.5, 5.0),
}
right = False
for name in sys.argv[1:] or FAULTS:
    given = torch.tensor([float("nan"), 1.0])
    expected, actual = FAULTS[name](given), FAULTS[name](given.to(torch_xla.device())).cpu()
    print(f"{name}: expected {expected.tolist()}, actual {actual.tolist()}")
    right |= bool(actual.isnan()[0])
sys.exit(1 if right else 0)
