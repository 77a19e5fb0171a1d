"""What torch_xla gets wrong of rounded quotients, counts, windows, logits and least integers; names select.

torch_xla 2.9.0. Exits 0 when the faults are there.
"""

import os
import sys
from collections.abc import Callable

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn.functional import max_pool2d

XLA = torch_xla.device()


def outcome(call: Callable[[object], object], device: object) -> object:
    """The result, or the error."""
    try:
        return call(device)
    except RuntimeError as error:
        return str(error).splitlines()[0][:100]


def gradient_of_max_pool(device: object) -> list[list[list[float]]]:
    """The gradient of the maximum of every second number."""
    numbers = torch.arange(6.0, device=device).view(1, 1, 6).requires_grad_()
    max_pool2d(numbers, (1, 3), stride=2, dilation=(1, 2)).sum().backward()
    return numbers.grad.tolist()


FAULTS = {
    "count_nonzero_along_all": lambda at: tuple(torch.count_nonzero(torch.ones(2).to(at), (0,)).shape),
    "dilated_max_pool": gradient_of_max_pool,
    "floor_divide": lambda at: (torch.tensor([1.0]).to(at) // torch.tensor([0.1]).to(at)).tolist(),
    "isneginf": lambda at: torch.isneginf(torch.tensor([0, 1], dtype=torch.uint8).to(at)).tolist(),
    "logit": lambda at: torch.logit(torch.tensor([-3.0, 0.5, 7.0]).to(at), 0.2).tolist(),
    "trace": lambda at: str(torch.trace(torch.eye(2, dtype=torch.uint8).mul(200).to(at)).cpu()),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    actual, expected = outcome(FAULTS[name], XLA), outcome(FAULTS[name], "cpu")
    print(f"{name}: expected {expected}, actual {actual}")
    missing += [name] if actual == expected else []
sys.exit(f"not there: {missing}" if missing else 0)
