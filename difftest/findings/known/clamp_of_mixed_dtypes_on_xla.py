"""`clamp_min`, `clamp_max` and `_foreach_maximum` with a tensor of another dtype fail.

`clamp_min`, `clamp_max` and operators of lists do not promote, as `maximum` and `clamp` do. torch_xla 2.9.0.
"""

from math import inf

import torch
import torch_xla

FLOATS, WHOLE = torch.tensor([inf, 1.0, -inf]), torch.tensor([2, 2, 2], dtype=torch.int32)


def shown(call: object, device: object) -> str:
    return str(call(FLOATS.to(device), WHOLE.to(device)).tolist())


for call in [torch.clamp_min, torch.clamp_max, lambda x, y: torch._foreach_maximum([x], [y])[0]]:
    expected, actual = shown(call, "cpu"), shown(call, torch_xla.device())
    print(f"expected {expected}, actual {actual}")
