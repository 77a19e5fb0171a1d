"""The gradient of `logsigmoid` at minus infinity is NaN on XLA, and 1 in torch.

So is that of `multilabel_soft_margin_loss` for a label of 1. torch_xla 2.9.0. Exits 0 when the fault is
there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional


def gradients(device: object) -> str:
    x = torch.tensor([-torch.inf, -300.0, 0.0], device=device).requires_grad_()
    functional.logsigmoid(x).sum().backward()
    return str(x.grad.tolist())


actual = gradients(torch_xla.device())  # before the host, after whose gradients XLA has none
expected = gradients("cpu")
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
