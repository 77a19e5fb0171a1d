"""The argument `nesterov` of SGD with momentum.

Equal to plain descent along the gradient plus the velocity that it leads to.
"""

import torch
from torch import Tensor

from difftest.cases.features.nesterov import Options
from workers.training.features import Hooks, TrainingProgress, nothing

hooks = nothing  # beside its argument


def equal(_options: Options) -> Hooks:
    """The optimizer's own momentum is used for velocities, and not for its steps."""
    velocities: dict[Tensor, Tensor] = {}

    def inside(progress: TrainingProgress) -> None:
        for group in progress.optimizer.param_groups:
            momentum = group.setdefault("velocity", group["momentum"])
            group["momentum"] = 0.0
            for parameter in group["params"]:
                if parameter.grad is not None:
                    _move(parameter, momentum, velocities)

    return Hooks(inside=inside)


def _move(parameter: Tensor, momentum: float, velocities: dict[Tensor, Tensor]) -> None:
    with torch.no_grad():
        gradient = parameter.grad
        assert gradient is not None  # noqa: S101  looked up above
        before = velocities.get(parameter)
        velocities[parameter] = gradient.clone() if before is None else momentum * before + gradient
        gradient.add_(velocities[parameter], alpha=momentum)
