"""What torch_xla gets wrong of division by infinity, shifts, distances, and sums of nothing; names select.

torch_xla 2.9.0. Exits 0 when the faults are there.
"""

import os
import sys
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional

XLA, INF = torch_xla.device(), torch.inf
DROPPED, ONE = torch.ops.aten.native_dropout_backward, torch.ones(1)
ROWS = torch.tensor([[0.0, 1.0], [3.0, 1.0]])


def outcome(call: Callable[..., object], device: object) -> object:
    """The result, or the error."""
    try:
        return call(device)
    except RuntimeError as error:
        return str(error).splitlines()[0][:100]


def layer_norm_requires_gradient(device: object) -> bool:
    """Whether the layer norm of a tensor without elements requires a gradient."""
    weight = torch.ones(1, device=device).requires_grad_()
    return functional.layer_norm(torch.ones(0, 1, device=device), (1,), weight).requires_grad


def gradient_of_remainder(device: object) -> list[float]:
    """The gradient of what is divided by; it is minus the quotient that `remainder` rounds down."""
    divisor = torch.tensor([-INF], device=device).requires_grad_()
    torch.remainder(torch.ones(1, device=device), divisor).sum().backward()
    return divisor.grad.tolist()


FAULTS = {
    "cumsum_of_nothing": lambda at: str(torch.ones(1, 0, device=at).cumsum(1).cpu()),
    "dropout_gradient_of_infinity": lambda at: str(DROPPED(INF * ONE.to(at), ONE.to(at) < 0, 2.0).cpu()),
    "floor_divide_by_infinity": lambda at: str((torch.tensor([-1.0, INF]).to(at) // INF).cpu()),
    "layer_norm_of_nothing": layer_norm_requires_gradient,
    "pdist_of_infinity": lambda at: str(torch.pdist(ROWS.to(at), INF).cpu()),
    "pdist_of_zero": lambda at: str(torch.pdist(ROWS.to(at), 0).cpu()),
    "polygamma_in_place": lambda at: str(torch.ones(2, device=at).polygamma_(1).cpu()),
    "remainder_gradient": gradient_of_remainder,
    "remainder_by_infinity": lambda at: str((torch.tensor([1.0, -1.0]).to(at) % INF).cpu()),
    "right_shift": lambda at: str((torch.tensor([4]).to(at) >> torch.tensor([1]).to(at)).cpu()),
    "right_shift_of_negative": lambda at: str((torch.tensor([-3]).to(at) >> 1).cpu()),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    actual, expected = outcome(FAULTS[name], XLA), outcome(FAULTS[name], "cpu")
    print(f"{name}: expected {expected}, actual {actual}")
    missing += [name] if actual == expected else []
sys.exit(f"not there: {missing}" if missing else 0)
