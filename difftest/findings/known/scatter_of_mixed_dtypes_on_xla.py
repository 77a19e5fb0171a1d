"""`as_strided_scatter` and `slice_scatter` do not convert a source of another dtype, and fail.

torch_xla 2.9.0.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

WHOLE, PART = torch.zeros(2, 3), torch.ones(1, 3, dtype=torch.int32)


def call(to):
    return torch.as_strided_scatter(to(WHOLE), to(PART), (1, 3), (3, 1))


def outcome(device: object) -> str:
    """The result."""
    return str(call(lambda tensor: tensor.to(device)).cpu())


expected, actual = outcome("cpu"), outcome(torch_xla.device())
print(f"expected {expected}, actual {actual}")
