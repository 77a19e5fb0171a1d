"""The features of training, a file each: what a loop does beside forward, backward and update.

A file offers `hooks(options)`, what users write, and `equal(options)`, what that must be equal to. The oracle
takes the second, which is written in a few plain operators, or does nothing at all.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Protocol, TypeAlias, cast

import torch
from msgspec import structs
from torch import Tensor, nn

from difftest.cases.options import Feature, FeatureOption
from difftest.ground import plugins
from difftest.ground.errors import UnsupportedError
from difftest.judge.events import Events
from workers.training.operators import Operators

READ = "aten::_local_scalar_dense"
"""torch_xla's counter of numbers that were read on the host."""

Options: TypeAlias = Mapping[str, FeatureOption]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingProgress:
    """Where a run is. `forward()` gives the loss of the first part of the step's batch."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    step: int
    steps: int
    forward: Callable[[], Tensor]

    @property
    def last(self) -> bool:
        """Whether this is the last step."""
        return self.step == self.steps - 1


Act: TypeAlias = Callable[[TrainingProgress], None]


def _nothing(_progress: TrainingProgress) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What a feature does, and when; by default nothing.

    * `place(module) -> module`: once, before the backend places the module.
    * `arguments`: further arguments of the optimizer's constructor.
    * `operators(own) -> operators`: what the module is built of.
    * `kind(optimizer) -> optimizer`: the class of the optimizer, or a function that is called like it.
    * `groups(parameters)`: from the parameters to what the optimizer is given; None for one group of all.
    * `before(progress)`: ahead of a step.
    * `backward(progress)`: when gradients are complete, before they are read.
    * `update(progress)`: when they were read and clipped, right before the optimizer's step.
    * `inside(progress)`: after that of all features, for what the optimizer's step begins with.
    * `zero`: the arguments of `zero_grad`.
    * `after(progress)`: right after `zero_grad`, before parameters are read.
    * `leaves_device`: whether it sends tensors to the host, and needs new graphs after it, by design.
      Then those of the run are not reported.
    * `reads_values`: whether torch_xla reads values on the host for it, within a step. That is reported.
    """

    place: Callable[[nn.Module], nn.Module] = lambda module: module
    arguments: Mapping[str, Any] = field(default_factory=dict)
    operators: Callable[[Operators], Operators] = lambda own: own
    kind: Callable[[Any], Any] = lambda optimizer: optimizer
    groups: Callable[[dict[str, nn.Parameter]], list[dict[str, Any]]] | None = None
    before: Act = _nothing
    backward: Act = _nothing
    update: Act = _nothing
    inside: Act = _nothing
    zero: Mapping[str, bool] = field(default_factory=dict)
    after: Act = _nothing
    leaves_device: bool = False
    reads_values: bool = False


class Behaviour(Protocol):
    """What a file in this folder offers. A run makes its own hooks, which may keep state."""

    def hooks(self, options: Options) -> Hooks:
        """The feature, by the functions that users call."""

    def equal(self, options: Options) -> Hooks:
        """What it must be equal to."""


@dataclass(frozen=True, slots=True)
class Features:
    """All features of a run; each hook calls them in the case's order."""

    used: Sequence[Hooks]

    def place(self, module: nn.Module) -> nn.Module:
        """The module after all of them."""
        return reduce(lambda placed, hooks: hooks.place(placed), self.used, module)

    def operators(self, own: Operators) -> Operators:
        """The operators after all of them."""
        return reduce(lambda operators, hooks: hooks.operators(operators), self.used, own)

    def optimizer(self, kind: Any, trained: list[Any], arguments: dict[str, Any]) -> torch.optim.Optimizer:  # noqa: ANN401
        """The optimizer of a class, or of the one that a feature takes in its place."""
        kind = reduce(lambda chosen, hooks: hooks.kind(chosen), self.used, kind)
        optimizer: torch.optim.Optimizer = kind(trained, **arguments | self._arguments())
        return optimizer

    def _arguments(self) -> dict[str, Any]:
        return {name: value for hooks in self.used for name, value in hooks.arguments.items()}

    def trained(self, parameters: dict[str, nn.Parameter]) -> list[Any]:
        """What the optimizer is given: parameters, or the groups of the first feature that has some."""
        groups = next(self._of("groups"), None)
        return groups(parameters) if groups else list(parameters.values())

    def _of(self, hook: str) -> Iterator[Any]:
        return (made for hooks in self.used if (made := getattr(hooks, hook)) is not None)

    def run(self, hook: str, progress: TrainingProgress) -> None:
        """Calls one hook of all features."""
        for act in self._of(hook):
            act(progress)

    def leave_device(self) -> bool:
        """Whether one of them sends tensors to the host by design."""
        return any(hooks.leaves_device for hooks in self.used)

    def require(self, reads_values: bool) -> None:  # noqa: FBT001  the session's word
        """`UnsupportedError` where a feature reads values and the backend cannot within a step."""
        reading = any(hooks.leaves_device or hooks.reads_values for hooks in self.used)
        if reading and not reads_values:
            msg = "a feature reads values on the host within a step, which this backend cannot"
            raise UnsupportedError(msg)

    def reported(self, events: Events) -> Events:
        """A run's events without the counts that a feature changes by design."""
        if not self.leave_device():
            return events
        others = {name: times for name, times in events.host_operators.items() if name != READ}
        return structs.replace(
            events, graphs=(), executed=(), requested=(), fetched=(), host_operators=others
        )

    def zero(self) -> dict[str, bool]:
        """The arguments of `zero_grad`."""
        return {name: value for hooks in self.used for name, value in hooks.zero.items()}


def made(features: Sequence[Feature], *, plain: bool, done: Container[str] = ()) -> Features:
    """The hooks of a run's features; `plain`: those of what they must be equal to.

    None of those that are `done` without them. `UsageError` for a feature that there is not.
    """
    behaviours = [cast("Behaviour", plugins.load(__name__, feature.name)) for feature in features]
    return Features(
        [
            behaviour.equal(feature.options) if plain else behaviour.hooks(feature.options)
            for behaviour, feature in zip(behaviours, features, strict=True)
            if feature.name not in done
        ]
    )
