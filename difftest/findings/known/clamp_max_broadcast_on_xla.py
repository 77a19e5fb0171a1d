"""`clamp_max` and `clamp_min` with a bound that has another number of dims fail.

torch_xla 2.9.0.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()


def call(at):
    return torch.clamp_max(torch.ones(2, 1, device=at), torch.ones(2, device=at))


def outcome(device: object) -> tuple[bool, str]:
    """Whether the call succeeds, and the result."""
    return (True, str(call(device).tolist()))


(accepts, expected), (accepted, actual) = (outcome("cpu"), outcome(XLA))
print(f"expected {expected}, actual {actual}")
