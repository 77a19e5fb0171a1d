"""The gradient of `smooth_l1_loss` turns NaN into a number.

That hides that training has diverged. They compare with a limit, and take the other branch where the
comparison is false, as it is for NaN. torch's own kernels keep NaN; those of gradients pass on the gradient
that comes in, which is NaN here. torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional


def gradient(loss: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """The function that gives the gradient of `loss`."""
    return lambda tensor: torch.autograd.grad(loss(tensor.requires_grad_()), tensor)[0]


XLA = torch_xla.device()
given = [float("nan"), 0.6]
actual = gradient(lambda x: functional.smooth_l1_loss(x, torch.zeros_like(x)))(
    torch.tensor(given, device=XLA)
).cpu()
expected = gradient(lambda x: functional.smooth_l1_loss(x, torch.zeros_like(x)))(torch.tensor(given))
print(f"expected {expected.tolist()}, actual {actual.tolist()}")
sys.exit(bool(bool(actual.isnan()[0])))
