"""`xlogy` of two floating dtypes fails: neither tensor is converted.

torch_xla 2.9.0.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

HALF = torch.full((2,), 2.0, dtype=torch.bfloat16)


def call(to):
    return torch.xlogy(to(torch.ones(2)), to(HALF))


def outcome(device: object) -> str:
    """The result."""
    return str(call(lambda tensor: tensor.to(device)).cpu())


expected, actual = outcome("cpu"), outcome(torch_xla.device())
print(f"expected {expected}, actual {actual}")
