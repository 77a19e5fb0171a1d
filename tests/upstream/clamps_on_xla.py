"""`clamp` with one bound on torch_xla, and clamps by a tensor of another dtype; names select.

`infinity`: the bound that is not given is the greatest number, so that an infinity does not stay one.
`dtypes`: `clamp_min`, `clamp_max` and operators of lists do not promote, as `maximum` and `clamp` do.
torch_xla 2.9.0. Exits 0 if all selected faults are there.
"""

import os
import sys
from math import inf

os.environ["PJRT_DEVICE"] = "CPU"
import torch
import torch_xla

FLOATS, WHOLE = torch.tensor([inf, 1.0, -inf]), torch.tensor([2, 2, 2], dtype=torch.int32)
CALLS = {
    "infinity": [lambda x, _: x.clamp(min=0.0), lambda x, _: x.clamp(max=0.0)],
    "dtypes": [torch.clamp_min, torch.clamp_max, lambda x, y: torch._foreach_maximum([x], [y])[0]],  # noqa: SLF001
}


def shown(call: object, device: object) -> str:
    try:
        return str(call(FLOATS.to(device), WHOLE.to(device)).tolist())
    except RuntimeError as error:
        return str(error)[:80]


missing = []
for name in sys.argv[1:] or CALLS:
    for call in CALLS[name]:
        expected, actual = shown(call, "cpu"), shown(call, torch_xla.device())
        print(f"{name}: expected {expected}, actual {actual}")
        missing += [name] if expected == actual else []
sys.exit(f"not there: {missing}" if missing else 0)
