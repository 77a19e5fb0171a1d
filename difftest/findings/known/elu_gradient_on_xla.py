"""The gradient of `elu` on XLA is wrong where the function has an `alpha` and the input is negative.

Exits 0 while the fault is there.
"""

import os
import sys

os.environ["PJRT_DEVICE"] = "CPU"
import torch
import torch_xla
from torch.nn import functional

gradients = []
for device in ("cpu", torch_xla.device()):
    given = torch.tensor([-2.0, -0.5, 1.0]).to(device).requires_grad_()
    functional.celu(given, alpha=0.5).sum().backward()
    gradients.append(given.grad.cpu())
print(f"expected {gradients[0].tolist()}, actual {gradients[1].tolist()}")
sys.exit(1 if torch.allclose(*gradients) else 0)
