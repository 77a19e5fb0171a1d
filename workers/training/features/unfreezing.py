"""`requires_grad` of a parameter that is off until a step.

Equal to dropping its gradient before that step.
"""

from torch import nn

from difftest.cases.features.unfreezing import Options
from workers.training.features import Hooks, TrainingProgress


def hooks(options: Options) -> Hooks:
    """Off before the module is placed; on again, of the placed parameter, ahead of the step."""

    def place(module: nn.Module) -> nn.Module:
        module.get_parameter(options.name).requires_grad_(False)  # noqa: FBT003  torch's name says it
        return module

    def before(progress: TrainingProgress) -> None:
        if progress.step == options.step:
            _named(progress.module, options).requires_grad_(True)  # noqa: FBT003

    return Hooks(place=place, before=before)


def equal(options: Options) -> Hooks:
    """Its gradient is dropped as soon as it is there."""

    def backward(progress: TrainingProgress) -> None:
        if progress.step < options.step:
            _named(progress.module, options).grad = None

    return Hooks(backward=backward)


def _named(module: nn.Module, options: Options) -> nn.Parameter:
    """The parameter of the placed module; wrappers put names of their own before the model's."""
    name = options.name
    own = dict(module.named_parameters())
    return own[name] if name in own else own[next(one for one in own if one.endswith(f".{name}"))]
