"""What torch_xla gets wrong of several matrices at once, of none, and of batch norms; names select.

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


def gradient_of_batch_norm(device: object) -> torch.Tensor:
    """The gradient of a batch norm that does not train, as where a model is fine-tuned with frozen norms."""
    tensor = torch.ones(3, 2, device=device).requires_grad_()
    mean, variance, weight = (torch.ones(2, device=device) for _ in range(3))
    functional.batch_norm(tensor, mean, variance, weight, training=False).sum().backward()
    return tensor.grad


def gradient_of_slogdet(device: object) -> torch.Tensor:
    """The gradient of the logarithms of several determinants."""
    matrices = torch.eye(2).repeat(3, 1, 1).to(device).requires_grad_()
    torch.linalg.slogdet(matrices).logabsdet.sum().backward()
    return matrices.grad


FAULTS = {
    "batch_norm_in_evaluation": gradient_of_batch_norm,
    "cdist_of_broadcast": lambda device: torch.cdist(
        torch.ones(3, 2, 2, device=device), torch.ones(2, 2, device=device)
    ),
    "slogdet_gradient_of_several": gradient_of_slogdet,
    "slogdet_of_nothing": lambda device: torch.linalg.slogdet(torch.ones(0, 0, device=device)).sign,
    "svd_of_nothing": lambda device: torch.linalg.svdvals(torch.ones(0, 0, device=device)),
    "svd_of_several": lambda device: torch.linalg.svdvals(torch.eye(2).repeat(3, 1, 1).to(device)),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    actual, expected = outcome(FAULTS[name], XLA), outcome(FAULTS[name], "cpu")
    print(f"{name}: expected {expected}, actual {actual}")
    missing += [name] if actual == expected else []
sys.exit(f"not there: {missing}" if missing else 0)
