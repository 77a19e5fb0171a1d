"""The binary cross-entropy of a logit of minus infinity is NaN; by its documented formula it is infinite.

torch 2.9.0. Exits 0 while the fault is there.
"""

import math
import sys

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

logit, target = torch.tensor(-math.inf), torch.tensor(0.75)
share = torch.sigmoid(logit)
expected = -(target * torch.log(share) + (1 - target) * torch.log(1 - share)).item()
actual = binary_cross_entropy_with_logits(logit, target).item()
print(f"expected {expected}, actual {actual}")
sys.exit(0 if expected == math.inf and math.isnan(actual) else 1)
