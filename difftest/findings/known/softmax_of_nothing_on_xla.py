"""`log_softmax` and `softmax` of an empty integer tensor fail.

torch_xla 2.9.0.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()


def call(at):
    return torch.ones(2, 0, dtype=torch.int64, device=at).log_softmax(1)


def outcome(device: object) -> tuple[bool, str]:
    """Whether the call succeeds, and the result."""
    return (True, str(call(device).tolist()))


(accepts, expected), (accepted, actual) = (outcome("cpu"), outcome(XLA))
print(f"expected {expected}, actual {actual}")
