"""`as_strided_copy` of a part of a tensor reads beside the part, and on XLA the part gets the gradient.

So does the update of the part, of which the result has nothing. torch_xla 2.9.0.
Exits 0 when the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla


def gradient_of_update(device: object) -> list[float]:
    """An update of the last three of six numbers, of which the first three are read."""
    whole, update = (torch.ones(size, device=device).requires_grad_() for size in (6, 3))
    part = (-whole).narrow(0, 3, 3).sub_(update)
    torch.as_strided_copy(part, (3,), (1,), storage_offset=0).sum().backward()
    return update.grad.tolist()


actual = gradient_of_update(torch_xla.device())  # first: torch_xla must start before a backward pass
expected = gradient_of_update("cpu")
print(f"expected {expected}, actual {actual}")
sys.exit(1 if actual == expected else 0)
