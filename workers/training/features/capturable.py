"""The argument `capturable` of Adam and AdamW, whose count of steps is then a tensor of the device.

Equal to the formula with such a count: its powers round, which is most of the error of the first steps.
"""

from functools import partial
from typing import Any

from difftest.cases.features.capturable import Options
from difftest.ground.errors import UnsupportedError
from workers.training.features import Hooks
from workers.training.formulas import ByFormula


def hooks(_options: Options) -> Hooks:
    """As torch's argument of that name, which torch refuses for tensors of the CPU."""

    def kind(optimizer: Any) -> Any:  # noqa: ANN401  a class, or a function that is called like it
        return lambda trained, **others: optimizer(_accelerated(trained), capturable=True, **others)

    return Hooks(kind=kind)


def equal(_options: Options) -> Hooks:
    """One tensor after another."""
    return Hooks(kind=lambda _optimizer: partial(ByFormula, kind="adam"))


def _accelerated(trained: list[Any]) -> list[Any]:
    """What the optimizer is given; `UnsupportedError` for parameters on the CPU."""
    groups = (one["params"] if isinstance(one, dict) else [one] for one in trained)
    if any(parameter.device.type == "cpu" for group in groups for parameter in group):
        msg = "capturable optimizers are for accelerators; torch refuses parameters on the CPU"
        raise UnsupportedError(msg)
    return trained
