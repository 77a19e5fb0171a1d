"""What a feature of training declares, in a file of `difftest.cases.features`.

Its options are a struct with methods: when a case can have the feature, which arguments it gives to torch,
and what it adds to a script. What is more than an argument has a file in `workers.training.features` too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias, TypeVar, cast

import msgspec

from difftest.cases import features
from difftest.cases.case import Case, Training
from difftest.cases.options import Feature, FeatureOption
from difftest.cases.schema import Schema
from difftest.cases.script_values import python

Choices: TypeAlias = Mapping[str, Sequence[FeatureOption]]
"""By option, the values that are drawn, each as often as the others."""

Arguments: TypeAlias = Mapping[str, FeatureOption]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelled:
    """The pieces of a script that a feature adds; by default none.

    `arguments` of the optimizer's constructor, with `lr` for its learning rate; `kind` is a class of
    `torch.optim` in place of the case's, with these arguments alone, and `parameters` what it is given.
    `around` is a class that is given that of the optimizer, and the arguments `sharded`, but not in the
    reference. Lines: `wrapped` ahead of the first step, in the reference too; `built` when the module is
    made, on the host, and `casts` there where no wrapper does the same; `begun` when the optimizer is made;
    `before` where a step has its batch and not run; `forwarded` ahead of the first backward pass of a step;
    `update` before the optimizer's step, and `after` behind `zero_grad`, whose arguments are `zero`, or which
    other lines call (`zeroes`). `reentrant` checkpoints are torch's older kind. `forwards_first`: behind the
    last forward pass, the losses of all parts are differentiated `once`, as a sum, or `each` by
    itself. `penalty` is the factor of the squares of the output's slope along the inputs, beside the loss;
    with `forward_mode` of its derivative along a direction, which the forward pass gives too.
    `in_place`: residual blocks add their input to what their layers give, in place.
    """

    arguments: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""
    parameters: str = ""
    around: str = ""
    sharded: Mapping[str, str] = field(default_factory=dict)
    wrapped: tuple[str, ...] = ()
    built: tuple[str, ...] = ()
    casts: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    forwarded: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    zero: str = ""
    zeroes: bool = False
    reentrant: bool = False
    forwards_first: str = ""
    penalty: str = ""
    forward_mode: str = ""
    in_place: bool = False


class FeatureOptions(Schema, frozen=True):
    """The options of a feature, and what follows from them; by default it adds nothing.

    `PATHS` are the only ones that draw it, so that the cases of other paths stay what they were without it;
    empty where any does that has features. `FURTHER_ON` are those that draw further values of its options,
    for the same reason. `OF_RANKS`: it is what several ranks do, which the twin of a case, on one device, has
    not. `OF_REPLICAS`: it is what replicas do, each with the whole model and a batch of its own.
    `CHANGES_GRADIENTS`: they are not those of the loss.
    """

    PATHS: ClassVar[tuple[str, ...]] = ()
    FURTHER_ON: ClassVar[tuple[str, ...]] = ()
    OF_RANKS: ClassVar[bool] = False
    OF_REPLICAS: ClassVar[bool] = False
    CHANGES_GRADIENTS: ClassVar[bool] = False

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """What each option can be in `case`; None where the feature has nothing to do there.

        `case` may have another feature. One of two says so if it cannot be beside the other.
        """
        raise NotImplementedError

    @classmethod
    def draws_further(cls, case: Case) -> bool:
        """Whether the path of `case` draws further values."""
        return case.path in cls.FURTHER_ON

    def arguments(self) -> Arguments:
        """Further arguments of the optimizer's constructor."""
        return {}

    def reference_arguments(self) -> Arguments:
        """Those of the optimizer that the oracle uses instead."""
        return {}

    def zero_arguments(self) -> Mapping[str, bool]:
        """The arguments of `zero_grad`."""
        return {}

    def spelled(self, training: Training) -> Spelled | None:
        """What it adds to a script of a case that trains so; None if no script can have it."""
        del training
        arguments = {name: python(value) for name, value in self.arguments().items()}
        zero = ", ".join(f"{name}={python(value)}" for name, value in self.zero_arguments().items())
        return Spelled(arguments=arguments, zero=zero)


Options = TypeVar("Options", bound=FeatureOptions)


def declared(name: str) -> type[FeatureOptions]:
    """The options of the feature called `name`; `UsageError` when there is none."""
    return cast("type[FeatureOptions]", features.load(name).Options)


def choices(name: str, case: Case) -> Choices | None:
    """What each option of the feature called `name` can be in `case`; None where the case cannot have it."""
    kind = declared(name)
    return kind.drawn(case) if not kind.PATHS or case.path in kind.PATHS else None


def typed(used: Iterable[Feature]) -> list[FeatureOptions]:
    """The options of a case's features, in their order."""
    return [msgspec.convert(feature.options, declared(feature.name)) for feature in used]


def of(case: Case, kind: type[Options]) -> Options | None:
    """The options of the feature that `kind` is of; None where `case` has no such feature."""
    return next((options for options in typed(case.training_features) if isinstance(options, kind)), None)


def has(case: Case, *names: str) -> bool:
    """Whether `case` has one of these features already."""
    return any(feature.name in names for feature in case.training_features)
