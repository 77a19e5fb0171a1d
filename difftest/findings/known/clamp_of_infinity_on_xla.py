"""`clamp` with one bound turns infinity into 3.4e38.

The bound that is not given is the greatest number, so that an infinity does not stay one. torch_xla 2.9.0.
Exits 0 while the fault is there.
"""

import sys
from math import inf

import torch
import torch_xla

FLOATS, WHOLE = torch.tensor([inf, 1.0, -inf]), torch.tensor([2, 2, 2], dtype=torch.int32)


def shown(call: object, device: object) -> str:
    return str(call(FLOATS.to(device), WHOLE.to(device)).tolist())


same = False
for call in [lambda x, _: x.clamp(min=0.0), lambda x, _: x.clamp(max=0.0)]:
    expected, actual = shown(call, "cpu"), shown(call, torch_xla.device())
    print(f"expected {expected}, actual {actual}")
    same |= expected == actual
sys.exit(bool(same))
