"""What torch_xla's operators get wrong on one device; names select.

torch_xla 2.9.0. Exits 0 when the faults are there.
"""

import os
import sys
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional

XLA = torch_xla.device()


def outcome(call: Callable[..., torch.Tensor], device: object) -> object:
    """The result's dtype, shape and values, or the error."""
    try:
        result = call(device)
        return result.dtype, tuple(result.shape), result.cpu().tolist()
    except (IndexError, RuntimeError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"


def gradient_of_slogdet(device: object) -> torch.Tensor:
    """The gradient of the logarithm of a determinant."""
    matrix = torch.eye(2).mul(2.0).to(device).requires_grad_()
    torch.linalg.slogdet(matrix).logabsdet.backward()
    return matrix.grad


FAULTS = {
    "amin_of_all": lambda device: torch.ones(5, 3, device=device).amin(),
    "avg_pool2d_divisor": lambda device: functional.avg_pool2d(
        torch.ones(1, 1, 3, 3, device=device), 3, 1, 1, count_include_pad=False, divisor_override=2
    ),
    "count_nonzero": lambda device: torch.ones(2, device=device).count_nonzero(),
    "gather_nothing": lambda device: torch.ones(5, device=device).gather(
        0, torch.ones(2, 0, dtype=torch.int64, device=device)
    ),
    "index_select_of_number": lambda device: torch.ones((), device=device).index_select(
        0, torch.zeros(1, dtype=torch.int64, device=device)
    ),
    "inv_ex_info": lambda device: torch.linalg.inv_ex(torch.eye(5, device=device)).info,
    "mean_as_int": lambda device: torch.ones(3, device=device).mean(dtype=torch.int64),
    "norm_minus_infinity": lambda device: torch.tensor([2.0, 3.0], device=device).norm(-torch.inf),
    "pad_replicate_negative": lambda device: functional.pad(
        torch.ones(1, 1, 2, 4, device=device), (-4, 5, 0, 0), "replicate"
    ),
    "repeat_zero_times": lambda device: torch.ones(2, device=device).repeat(0),
    "slogdet_gradient": gradient_of_slogdet,
}
missing = []
for name in sys.argv[1:] or FAULTS:
    actual, expected = outcome(FAULTS[name], XLA), outcome(FAULTS[name], "cpu")
    print(f"{name}: expected {expected}, actual {actual}")
    missing += [name] if actual == expected else []
sys.exit(f"not there: {missing}" if missing else 0)
