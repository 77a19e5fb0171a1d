"""`floor_divide` by and of infinity is wrong, and so is the gradient of `remainder`.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA, INF = torch_xla.device(), torch.inf


def outcome(call: Callable[..., object], device: object) -> object:
    """The result, or the error."""
    try:
        return call(device)
    except RuntimeError as error:
        return str(error).splitlines()[0][:100]


def gradient_of_remainder(device: object) -> list[float]:
    """The gradient of what is divided by; it is minus the quotient that `remainder` rounds down."""
    divisor = torch.tensor([-INF], device=device).requires_grad_()
    torch.remainder(torch.ones(1, device=device), divisor).sum().backward()
    return divisor.grad.tolist()


CALLS = {
    "floor_divide_by_infinity": lambda at: str((torch.tensor([-1.0, INF]).to(at) // INF).cpu()),
    "remainder_gradient": gradient_of_remainder,
}
missing = []
for name in CALLS:
    actual, expected = outcome(CALLS[name], XLA), outcome(CALLS[name], "cpu")
    print(f"{name}: expected {expected}, actual {actual}")
    missing += [name] if actual == expected else []
sys.exit(f"not there: {missing}" if missing else 0)
