"""What a user's optimizer is like: whether shapes of parameters matter to it, and how it saves its state."""

import torch
from torch import nn

from workers.own.precision import wide
from workers.own.trial import Trial


def by_shape(trial: Trial) -> bool:
    """Whether it updates parameters in another way where each has one dim, or refuses them.

    FSDP1 gives it such parameters. Groups by `dim()` and updates of matrices, as Muon's, come out otherwise.
    """
    if not hasattr(trial.functions, "optimizer"):
        return False
    as_they_are, flat = _trained(trial), _trained(trial)
    for parameter in flat:
        gradient, parameter.grad = parameter.grad, None
        parameter.data = parameter.data.flatten()
        parameter.grad = None if gradient is None else gradient.flatten()
    with wide():
        trial.functions.optimizer(as_they_are).step()
        try:
            trial.functions.optimizer(flat).step()
        except Exception:  # noqa: BLE001  the user's code may raise anything
            return True
    pairs = zip(as_they_are, flat, strict=True)
    return not all(torch.allclose(one.flatten(), other, rtol=1e-9, atol=0.0) for one, other in pairs)


def is_saved(trial: Trial) -> bool:
    """Whether its `state_dict` has the state and the groups, as those of torch's optimizers have."""
    if not hasattr(trial.functions, "optimizer"):
        return True
    kept = trial.functions.optimizer(_trained(trial)).state_dict()
    return {"state", "param_groups"} <= {*kept}


def _trained(trial: Trial) -> list[nn.Parameter]:
    """The parameters of a module that has run once, in float64, with their gradients."""
    _, _, module = trial.run(torch.float64)
    return [*module.parameters()]
