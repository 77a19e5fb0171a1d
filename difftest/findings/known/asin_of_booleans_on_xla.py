"""`asin` of a boolean tensor is boolean, where torch's is float32.

Torch computes them in float32, as those of integers, which torch_xla computes too. torch_xla 2.9.0. Exits 0
while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla


def outcome(function: str, device: object) -> str:
    """The result."""
    return str(getattr(torch, function)(torch.tensor([False, True]).to(device)).cpu())


expected, actual = outcome("asin", "cpu"), outcome("asin", torch_xla.device())
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
