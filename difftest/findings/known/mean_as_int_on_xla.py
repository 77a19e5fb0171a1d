"""`mean` accepts an integer dtype, which torch rejects.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()


def outcome(call: Callable[..., torch.Tensor], device: object) -> object:
    """The result's dtype, shape and values, or the error."""
    try:
        result = call(device)
        return result.dtype, tuple(result.shape), result.cpu().tolist()
    except (IndexError, RuntimeError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"


def call(device):
    return torch.ones(3, device=device).mean(dtype=torch.int64)


actual, expected = outcome(call, XLA), outcome(call, "cpu")
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
