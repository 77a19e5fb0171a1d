"""The definitions of optimizers, a file each: from a gradient to the updated parameter, in float64.

A file's `updated` has torch's names and documented defaults for its options, so that it takes what users give
to the class of torch. Options that must not change a number (`foreach`, `fused`, `capturable`) are not its.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from difftest.ground import plugins

Floats: TypeAlias = npt.NDArray[np.float64]

State: TypeAlias = dict[str, Any]
"""What an optimizer keeps of one parameter; empty before its first step."""

WITHOUT_EFFECT = frozenset({"foreach", "fused", "capturable", "differentiable"})
"""Options of torch that choose an implementation."""


class OptimizerDefinition(Protocol):
    """What a file in this folder offers."""

    @property
    def updated(self) -> Callable[..., Floats]:
        """One step of one parameter: `(parameter, gradient, state, *, step, **options)` to the parameter.

        `step` is counted from 1; what the optimizer keeps is changed in `state`.
        """


def names() -> tuple[str, ...]:
    """All optimizers that have a definition, sorted."""
    return plugins.names(__name__)


def load(name: str) -> OptimizerDefinition:
    """The definition of the optimizer called `name`; `UsageError` when there is none."""
    return cast("OptimizerDefinition", plugins.load(__name__, name))


class Optimizer:
    """An optimizer by its definition; `options` of one parameter may differ from those of another."""

    def __init__(self, name: str) -> None:
        self._updated = load(name).updated
        self._states = dict[str, State]()
        self._steps = dict[str, int]()

    def step(self, name: str, parameter: Floats, gradient: Floats, options: Mapping[str, Any]) -> Floats:
        """The parameter called `name` after its next step."""
        self._steps[name] = self._steps.get(name, 0) + 1
        kept = {key: value for key, value in options.items() if key not in WITHOUT_EFFECT}
        state = self._states.setdefault(name, {})
        return self._updated(parameter, gradient, state, step=self._steps[name], **kept)


def moving(state: State, name: str, value: Floats, kept: float) -> Floats:
    """The exponential moving average `name` after `value`, which began at 0."""
    state[name] = kept * state.get(name, np.zeros_like(value)) + (1 - kept) * value
    average: Floats = state[name]
    return average


def descent(gradient: Floats, parameter: Floats, *, maximize: bool, decay: float = 0.0) -> Floats:
    """The gradient of what is made small, with the weights' decay as a part of it."""
    return (-gradient if maximize else gradient) + decay * parameter
