"""An `out` whose elements share memory is accepted, which torch rejects.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()


def overlapping_out(device: object) -> object:
    """A result that is written to elements which share memory; torch rejects it."""
    out = torch.zeros(1, device=device).expand(3)
    try:
        return torch.neg(torch.ones(3, device=device), out=out).tolist()
    except RuntimeError as error:
        return str(error).splitlines()[0]


try:
    actual = overlapping_out(XLA)
except RuntimeError as error:
    actual = str(error).splitlines()[0]
print(f"expected {overlapping_out('cpu')}, actual {actual}")
sys.exit(actual == overlapping_out("cpu"))
