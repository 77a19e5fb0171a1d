"""`pdist` with `p=inf` gives the least difference, and with `p=0` infinity.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA, INF = torch_xla.device(), torch.inf
ROWS = torch.tensor([[0.0, 1.0], [3.0, 1.0]])


def outcome(call: Callable[..., object], device: object) -> object:
    """The result, or the error."""
    try:
        return call(device)
    except RuntimeError as error:
        return str(error).splitlines()[0][:100]


CALLS = {
    "pdist_of_infinity": lambda at: str(torch.pdist(ROWS.to(at), INF).cpu()),
    "pdist_of_zero": lambda at: str(torch.pdist(ROWS.to(at), 0).cpu()),
}
missing = []
for name in CALLS:
    actual, expected = outcome(CALLS[name], XLA), outcome(CALLS[name], "cpu")
    print(f"{name}: expected {expected}, actual {actual}")
    missing += [name] if actual == expected else []
sys.exit(f"not there: {missing}" if missing else 0)
