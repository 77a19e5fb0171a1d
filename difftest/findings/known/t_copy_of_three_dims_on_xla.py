"""`t_copy` takes tensors of more than two dims, which torch rejects.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()


def call(at):
    return torch.t_copy(torch.ones(1, 1, 2, device=at))


def outcome(device: object) -> tuple[bool, str]:
    """Whether the call succeeds, and its result or error."""
    try:
        return (True, str(call(device).tolist()))
    except RuntimeError as error:
        return (False, str(error).splitlines()[0])


(accepts, expected), (accepted, actual) = (outcome("cpu"), outcome(XLA))
print(f"expected {expected}, actual {actual}")
there = accepts != accepted or (accepts and expected != actual)
sys.exit(not there)
