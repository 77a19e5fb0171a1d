"""Shapes and dtypes that torch_xla refuses or treats otherwise than torch; names select.

torch_xla 2.9.0. Exits 0 when the faults are there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()
FAULTS = {
    "cholesky_of_no_ints": lambda at: torch.cholesky(torch.ones(0, 0, dtype=torch.int16, device=at)),
    "clip": lambda at: torch.clip(torch.tensor([0, 3], device=at), 0.25, 0.75),
    "clamp_max": lambda at: torch.clamp_max(torch.ones(2, 1, device=at), torch.ones(2, device=at)),
    "erfc_of_int": lambda at: torch.erfc(torch.ones(2, dtype=torch.int32, device=at)),
    "log_softmax_of_nothing": lambda at: torch.ones(2, 0, dtype=torch.int64, device=at).log_softmax(1),
    "logsumexp_of_int": lambda at: torch.logsumexp(torch.zeros(1, dtype=torch.uint8, device=at), 0),
    "softmax_of_nothing": lambda at: torch.ones(2, 0, dtype=torch.int64, device=at).softmax(1),
    "t_copy_of_three_dims": lambda at: torch.t_copy(torch.ones(1, 1, 2, device=at)),
}


def outcome(name: str, device: object) -> tuple[bool, str]:
    """Whether the call succeeds, and its result or error."""
    try:
        return True, str(FAULTS[name](device).tolist())
    except RuntimeError as error:
        return False, str(error).splitlines()[0]


missing = []
for name in sys.argv[1:] or FAULTS:
    (accepts, expected), (accepted, actual) = outcome(name, "cpu"), outcome(name, XLA)
    print(f"{name}: expected {expected}, actual {actual}")
    there = accepts != accepted or (accepts and expected != actual)
    missing += [] if there else [name]
sys.exit(f"not there: {missing}" if missing else 0)
