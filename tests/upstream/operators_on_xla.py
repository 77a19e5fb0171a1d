"""What torch_xla's operators get wrong on one device; names select.

torch_xla 2.9.0. Exits 0 when the faults are there.
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


FAULTS = {
    "amin_of_all": lambda device: torch.ones(5, 3, device=device).amin(),
    "gather_nothing": lambda device: torch.ones(5, device=device).gather(
        0, torch.ones(2, 0, dtype=torch.int64, device=device)
    ),
    "index_select_of_number": lambda device: torch.ones((), device=device).index_select(
        0, torch.zeros(1, dtype=torch.int64, device=device)
    ),
    "mean_as_int": lambda device: torch.ones(3, device=device).mean(dtype=torch.int64),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    actual, expected = outcome(FAULTS[name], XLA), outcome(FAULTS[name], "cpu")
    print(f"{name}: expected {expected}, actual {actual}")
    missing += [name] if actual == expected else []
sys.exit(f"not there: {missing}" if missing else 0)
