"""Operators of two dtypes that fail on XLA: neither argument is converted to the dtype of the result.

Names select. torch_xla 2.9.0. Exits 0 when the faults are there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

WHOLE, PART = torch.zeros(2, 3), torch.ones(1, 3, dtype=torch.int32)
HALF = torch.full((2,), 2.0, dtype=torch.bfloat16)
FAULTS = {
    "as_strided_scatter": lambda to: torch.as_strided_scatter(to(WHOLE), to(PART), (1, 3), (3, 1)),
    "slice_scatter": lambda to: torch.slice_scatter(to(WHOLE), to(PART), 0, 0, 1),
    "xlogy": lambda to: torch.xlogy(to(torch.ones(2)), to(HALF)),
}


def outcome(name: str, device: object) -> str:
    """The result, or the error."""
    try:
        return str(FAULTS[name](lambda tensor: tensor.to(device)).cpu())
    except (RuntimeError, ValueError) as error:
        return str(error).splitlines()[0][:160]


missing = []
for name in sys.argv[1:] or FAULTS:
    expected, actual = outcome(name, "cpu"), outcome(name, torch_xla.device())
    print(f"{name}: expected {expected}, actual {actual}")
    missing += [name] if actual == expected else []
sys.exit(f"not there: {missing}" if missing else 0)
