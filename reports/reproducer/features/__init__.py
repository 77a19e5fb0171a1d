"""How scripts write the features of training: a file for each that they can.

The file has the name of those in `workers.training.features`. The float64 reference of a script runs the same
lines on one device, by eager torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, cast

from difftest.cases.case import Case, Training
from difftest.cases.options import Feature, FeatureOption
from difftest.ground import plugins
from reports.reproducer.values import python

Options: TypeAlias = Mapping[str, FeatureOption]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelled:
    """The pieces of a script that a feature adds; by default none.

    `arguments` of the optimizer's constructor, with `lr` for its learning rate; `kind` is a class of
    `torch.optim` in place of the case's, with these arguments alone, and `parameters` what it is given.
    `around` is a class that is given that of the optimizer, but not in the reference.
    Lines: `built` when the module is made, on the host, and `casts` there where no wrapper does the same;
    `begun` when the optimizer is made; `before` where a step has its batch and not run; `update` before the
    optimizer's step, and `after` behind `zero_grad`, whose arguments are `zero`. `reentrant` checkpoints are
    torch's older kind.
    """

    arguments: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""
    parameters: str = ""
    around: str = ""
    built: tuple[str, ...] = ()
    casts: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    zero: str = ""
    reentrant: bool = False


OPTIMIZERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "sgd": ("SGD", {}),
    "momentum": ("SGD", {"momentum": "0.875"}),
    "adam": ("Adam", {}),
    "adamw": ("AdamW", {"weight_decay": "0.125"}),
}
"""The class of each optimizer of a case, and its arguments beside the learning rate."""


class FeatureSpelling(Protocol):
    """What a file in this folder offers."""

    def spelled(self, options: Options, training: Training) -> Spelled:
        """The feature with its options, of a case that trains so."""


def refusal(case: Case) -> str | None:
    """Why scripts cannot have all features of a case; None if they can."""
    lacking = (one.name for one in case.training_features if one.name not in plugins.names(__name__))
    name = next(lacking, None)
    return f"no template can write the feature {name} yet; replay runs the case again" if name else None


def spelled(features: Sequence[Feature], training: Training) -> tuple[Spelled, ...]:
    """The features of a case, in their order."""
    files = (cast("FeatureSpelling", plugins.load(__name__, one.name)) for one in features)
    return tuple(file.spelled(one.options, training) for file, one in zip(files, features, strict=True))


def merged(case: Case) -> Spelled:
    """The lines of all features of a case."""
    used = spelled(case.training_features, case.training)
    return Spelled(
        built=tuple(line for one in used for line in one.built),
        casts=tuple(line for one in used for line in one.casts),
        begun=tuple(line for one in used for line in one.begun),
        before=tuple(line for one in used for line in one.before),
        update=tuple(line for one in used for line in one.update),
        after=tuple(line for one in used for line in one.after),
        zero="".join(one.zero for one in used),
        reentrant=any(one.reentrant for one in used),
    )


def constructed(case: Case) -> str:
    """The optimizer of torch over `model.parameters()`."""
    training, used = case.training, spelled(case.training_features, case.training)
    kind, own = OPTIMIZERS[training.optimizer]
    arguments = {"lr": python(training.learning_rate), **own}
    for one in used:
        kind = one.kind or kind
        arguments = {**({} if one.kind else arguments), **one.arguments}
    parameters = next((one.parameters for one in used if one.parameters), "model.parameters()")
    given = "".join(f", {name}={value}" for name, value in arguments.items())
    plain = f"torch.optim.{kind}({parameters}{given})"
    around = next((one.around for one in used if one.around), "")
    if not around:
        return plain
    wrapped = f"{around}({parameters}, optimizer_class=torch.optim.{kind}{given})"
    return f"{plain} if next(model.parameters()).dtype is torch.float64 else {wrapped}"
