"""The softmax of great logits that were scaled is not a number on XLA:CPU.

The product is rounded where the greatest is sought, and not where that is subtracted, since multiplication and
subtraction become one instruction. So the greatest logit minus the greatest is not 0, and from about 1.5e9 on
its exponential may be infinite.

torch_xla 2.9.0 on the CPU, and jaxlib 0.7.1; jaxlib 0.12.0 has it no more. Exits 0 when the fault is there.
"""

import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla

torch.manual_seed(0)
logits = torch.randn(64, 12) * 1e11
expected = torch.softmax(logits * 7**-0.5, -1)
actual = torch.softmax(logits.to(torch_xla.device()) * 7**-0.5, -1).cpu()
print(f"not finite: expected {(~expected.isfinite()).sum()}, actual {(~actual.isfinite()).sum()}")
sys.exit(0 if expected.isfinite().all() and not actual.isfinite().all() else 1)
