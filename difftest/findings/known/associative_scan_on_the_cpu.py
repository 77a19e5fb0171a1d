"""A fusible `associative_scan` is refused on the CPU.

torch 2.9.0; 2.15.0 has it.
"""

import torch
from torch._higher_order_ops import associative_scan

sums = associative_scan(torch.add, torch.ones(4), dim=0, combine_mode="pointwise")
print(f"expected [1.0, 2.0, 3.0, 4.0], actual {sums.tolist()}")
