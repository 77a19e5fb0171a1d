"""The features of training that are more than an argument, a file each: what a loop does beside its steps.

A file offers `hooks(options)`, what users write beside the arguments that `difftest.cases.features` declares,
and `equal(options)`, what that must be equal to. The oracle takes the second, which is written in a few plain
operators, or does nothing at all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias, cast

import torch
from msgspec import structs
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils import _pytree

from difftest.cases.feature import Arguments, FeatureOptions, typed
from difftest.cases.options import Feature
from difftest.ground import plugins
from difftest.ground.errors import UnsupportedError
from difftest.judge.events import Events
from workers.training.operators import Operators

READ = "aten::_local_scalar_dense"
"""torch_xla's counter of numbers that were read on the host."""


State: TypeAlias = dict[Any, dict[str, Any]]
"""What an optimizer keeps, by parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingProgress:
    """Where a run is.

    `forward()` gives the loss of the first part of the step's batch, and `of_rank(rank)` that of the rows
    which one of `ranks` has of it, in a process with the rows of all. A backward pass is of `scale` times
    the loss. When the hook has ended buffers are as they were before these passes, or when it called
    `keep_buffers()`. `optimizer_of(module)` makes such an optimizer over another module's parameters.
    `first_state` is the state that the optimizer was made with: most have none before they step, Adagrad has.
    """

    module: nn.Module
    optimizer: torch.optim.Optimizer
    optimizer_of: Callable[[nn.Module], torch.optim.Optimizer]
    first_state: State
    step: int
    steps: int
    forward: Callable[[], Tensor]
    of_rank: Callable[[int], Tensor]
    keep_buffers: Callable[[], None]
    ranks: int
    scale: float

    @property
    def last(self) -> bool:
        """Whether this is the last step."""
        return self.step == self.steps - 1

    def forget(self) -> None:
        """Sets parameters to zero, and the optimizer's state to that which it was made with."""
        with torch.no_grad():
            for parameter in self.module.parameters():
                parameter.zero_()
        self.forget_state()

    def forget_state(self) -> None:
        """As `forget`, of the optimizer alone."""
        self.optimizer.state.clear()
        self.optimizer.state.update(state_of(self.first_state))


def state_of(state: State) -> State:
    """A copy of what an optimizer keeps, by parameter."""
    return {
        parameter: _pytree.tree_map_only(Tensor, torch.clone, dict(kept)) for parameter, kept in state.items()
    }


Act: TypeAlias = Callable[[TrainingProgress], None]

Model: TypeAlias = Callable[[Tensor], Tensor]

Call: TypeAlias = Callable[[Model, Tensor, int], tuple[Tensor, Tensor]]


def _nothing(_progress: TrainingProgress) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What a feature does, and when; by default nothing.

    * `place(module) -> module`: once, before the backend places the module.
    * `operators(own) -> operators`: what the module is built of.
    * `kind(optimizer) -> optimizer`: the class of the optimizer, or a function that is called like it.
    * `groups(parameters)`: from the parameters to what the optimizer is given; None for one group of all.
    * `before(progress)`: ahead of a step.
    * `forwarded(progress)`: between the forward pass and the backward pass of a step's first part.
    * `backward(progress)`: when gradients are complete, before they are read.
    * `update(progress)`: when they were read and clipped, right before the optimizer's step.
    * `inside(progress)`: after that of all features, for what the optimizer's step begins with.
    * `after(progress)`: right after `zero_grad`, before parameters are read.
    * `zeroes`: it calls `zero_grad`, and the loop does not.
    * `leaves_device`: whether it sends tensors to the host, and needs new graphs after it, by design.
      Then those of the run are not reported.
    * `reads_values`: whether torch_xla reads values on the host for it, within a step. That is reported.
    * `forwards_first`: the forward passes of all parts come before the first backward pass. Then the sum of
      the losses is differentiated `once`, or `each` of them by itself.
    * `call(model, inputs, count) -> output, term`: a forward pass of a part, and what is added to its loss,
      which is divided by `count`. Not where gradients are off.
    """

    place: Callable[[nn.Module], nn.Module] = lambda module: module
    operators: Callable[[Operators], Operators] = lambda own: own
    kind: Callable[[Any], Any] = lambda optimizer: optimizer
    groups: Callable[[dict[str, nn.Parameter]], list[dict[str, Any]]] | None = None
    before: Act = _nothing
    forwarded: Act | None = None
    backward: Act = _nothing
    update: Act = _nothing
    inside: Act = _nothing
    after: Act = _nothing
    zeroes: bool = False
    leaves_device: bool = False
    reads_values: bool = False
    forwards_first: Literal["", "once", "each"] = ""
    call: Call | None = None


OwnHooks: TypeAlias = Mapping[str, Callable[[Any], Hooks]]
"""By feature, from its `Options` to what a backend does in its own way."""


class Behaviour(Protocol):
    """What a file in this folder offers. A run makes its own hooks, which may keep state."""

    @property
    def hooks(self) -> Callable[[Any], Hooks]:
        """From the feature's `Options` to what it does, by the functions that users call."""

    @property
    def equal(self) -> Callable[[Any], Hooks]:
        """From the feature's `Options` to what it must be equal to."""


TORCH_DEVICES = ("cpu", "cuda")
"""The types of devices that torch's own process groups have."""


def require_wrapped(module: nn.Module, what: str, devices: Sequence[str] = TORCH_DEVICES) -> None:
    """`UnsupportedError` unless it is wrapped by `DistributedDataParallel`, on one of these devices."""
    if not isinstance(module, DistributedDataParallel):
        msg = f"{what} need a module in DistributedDataParallel"
        raise UnsupportedError(msg)
    if (device := next(module.parameters()).device.type) not in devices:
        msg = f"{what} are for {' and '.join(devices)}; the module is on {device}"
        raise UnsupportedError(msg)


def nothing(_options: FeatureOptions) -> Hooks:
    """Nothing happens beside the arguments."""
    return Hooks()


@dataclass(frozen=True, slots=True)
class Features:
    """All features of a run; each hook calls them in the case's order."""

    used: Sequence[Hooks]
    arguments: Arguments
    zero: Mapping[str, bool]
    """Those of the optimizer, and of `zero_grad`."""

    def place(self, module: nn.Module) -> nn.Module:
        """The module after all of them."""
        return reduce(lambda placed, hooks: hooks.place(placed), self.used, module)

    def operators(self, own: Operators) -> Operators:
        """The operators after all of them."""
        return reduce(lambda operators, hooks: hooks.operators(operators), self.used, own)

    def optimizer(self, kind: Any, trained: list[Any], arguments: dict[str, Any]) -> torch.optim.Optimizer:  # noqa: ANN401
        """The optimizer of a class, or of the one that a feature takes in its place."""
        kind = reduce(lambda chosen, hooks: hooks.kind(chosen), self.used, kind)
        optimizer: torch.optim.Optimizer = kind(trained, **arguments | dict(self.arguments))
        return optimizer

    def trained(self, parameters: dict[str, nn.Parameter]) -> list[Any]:
        """What the optimizer is given: parameters, or the groups of the first feature that has some."""
        groups = next(self._of("groups"), None)
        return groups(parameters) if groups else list(parameters.values())

    def _of(self, hook: str) -> Iterator[Any]:
        return (function for hooks in self.used if (function := getattr(hooks, hook)) is not None)

    def run(self, hook: str, progress: TrainingProgress) -> None:
        """Calls one hook of all features."""
        for act in self._of(hook):
            act(progress)

    @property
    def forwards_first(self) -> str:
        """How the parts' losses are differentiated behind the last forward pass; empty where none waits."""
        return next(filter(None, (hooks.forwards_first for hooks in self.used)), "")

    @property
    def call(self) -> Call | None:
        """A forward pass that gives a term of the loss too; None where it is the module's alone."""
        return next(self._of("call"), None)

    @property
    def zeroes(self) -> bool:
        """Whether one of them calls `zero_grad`, so that the loop does not."""
        return any(hooks.zeroes for hooks in self.used)

    def one_by_one(self) -> str:
        """What a backward pass must do that is no function of its own; empty where it may be in another."""
        if self.forwards_first:
            return "wait"
        if self.call:
            return "be differentiated"
        return "begin with a call" if any(self._of("forwarded")) else ""

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


def made(features: Sequence[Feature], *, plain: bool, own: OwnHooks = MappingProxyType({})) -> Features:
    """The hooks of a run's features; `plain`: those of what they must be equal to.

    A backend's `own` go before. `UsageError` for a feature that there is not.
    """
    every = typed(features)
    arguments = [one.reference_arguments() if plain else one.arguments() for one in every]
    return Features(
        [
            own[feature.name](options) if feature.name in own else _hooks(feature.name, options, plain=plain)
            for feature, options in zip(features, every, strict=True)
        ],
        arguments={name: value for given in arguments for name, value in given.items()},
        zero={} if plain else {name: at for one in every for name, at in one.zero_arguments().items()},
    )


def _hooks(name: str, options: FeatureOptions, *, plain: bool) -> Hooks:
    if name not in plugins.names(__name__):  # it is an argument
        return Hooks()
    behaviour = cast("Behaviour", plugins.load(__name__, name))
    return behaviour.equal(options) if plain else behaviour.hooks(options)
