"""`clip` of an integer tensor with float bounds gives integers: 0 where torch gives 0.75.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()


def call(at):
    return torch.clip(torch.tensor([0, 3], device=at), 0.25, 0.75)


def outcome(device: object) -> tuple[bool, str]:
    """Whether the call succeeds, and the result."""
    return (True, str(call(device).tolist()))


(accepts, expected), (accepted, actual) = (outcome("cpu"), outcome(XLA))
print(f"expected {expected}, actual {actual}")
there = accepts != accepted or (accepts and expected != actual)
sys.exit(not there)
