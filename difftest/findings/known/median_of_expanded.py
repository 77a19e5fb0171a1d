"""`median` and `nanmedian` along an expanded dim return memory that lies behind the tensor, on the CPU.

All elements are the same one, so that the median is it. torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys

import torch

memory, expected = torch.tensor([0.5, 9.0, 9.0, 9.0, 9.0]), 0.5
expanded = memory[:1].expand(5)
actual = [call(expanded, 0).values.item() for call in (torch.median, torch.nanmedian)]
print(f"expected {expected}, actual {actual}")
sys.exit(actual == [expected, expected])
