"""`torch._chunk_cat`, which FSDP2 packs gradients with, gives zeros on XLA where it pads.

Exits 0 while the fault is there.
"""

import os
import sys

os.environ["PJRT_DEVICE"] = "CPU"
import torch
import torch_xla

tensor = torch.ones(3, 4)  # two chunks of two rows, one of them padded
expected = torch._chunk_cat([tensor, tensor], 0, 2)
actual = torch._chunk_cat([tensor.to(torch_xla.device())] * 2, 0, 2).cpu()
print(f"expected the sum {expected.sum():g}, actual {actual.sum():g}")
sys.exit(0 if not actual.any() else 1)
