"""The gradient of `hardtanh` is 1 at its bounds on XLA, and 0 in torch; bfloat16 numbers are often there.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU")
import torch
import torch_xla


def gradient(device: object) -> list[float]:
    numbers = torch.tensor([-1.0, 0.5, 1.0], device=device).requires_grad_()
    torch.nn.functional.hardtanh(numbers).sum().backward()
    return numbers.grad.tolist()


actual, expected = gradient(torch_xla.device()), gradient("cpu")  # a backward on the host first breaks XLA's
print(f"expected {expected}, actual {actual}")
sys.exit(0 if (expected, actual) == ([0.0, 1.0, 0.0], [1.0, 1.0, 1.0]) else 1)
