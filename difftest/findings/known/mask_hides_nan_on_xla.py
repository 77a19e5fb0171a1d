"""A number times a mask is 0 on XLA wherever the mask is False, also where the number is NaN or infinite.

XLA makes the product with a boolean a selection. So the gradient of `amax` hides that a gradient is NaN.
torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU")
import torch
import torch_xla

XLA = torch_xla.device()


def results(device: object) -> str:
    """Infinity times a mask that is False, and the gradient of a maximum when its cotangent is NaN."""
    masked = torch.tensor([torch.inf], device=device) * torch.tensor([False], device=device)
    rows = torch.tensor([[1.0, 2.0]], device=device).requires_grad_()
    rows.amax(1).backward(torch.full((1,), torch.nan, device=device))
    return f"{masked.tolist()} {rows.grad.tolist()}"


expected, actual = results("cpu"), results(XLA)
print(f"expected {expected}, actual {actual}")
sys.exit(0 if actual == "[0.0] [[0.0, nan]]" and expected == "[nan] [[nan, nan]]" else 1)
