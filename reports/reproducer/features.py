"""How scripts write the features of training: `difftest.cases.features` has the pieces of each.

The float64 reference of a script runs the same lines on one device, by eager torch.
"""

from collections.abc import Mapping

from difftest.cases.case import Case
from difftest.cases.feature import Spelled, typed
from difftest.cases.script_values import python

OPTIMIZERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "sgd": ("SGD", {}),
    "momentum": ("SGD", {"momentum": "0.875"}),
    "adam": ("Adam", {}),
    "adamw": ("AdamW", {"weight_decay": "0.125"}),
}
"""The class of each optimizer of a case, and its arguments beside the learning rate."""


def refusal(case: Case) -> str | None:
    """Why scripts cannot have all features of a case; None if they can."""
    for feature, options in zip(case.training_features, typed(case.training_features), strict=True):
        if options.spelled(case.training) is None:
            return f"no template can write the feature {feature.name} yet; replay runs the case again"
    return None


def spelled(case: Case) -> list[Spelled]:
    """The pieces of the features of a case, in their order."""
    pieces = (options.spelled(case.training) for options in typed(case.training_features))
    return [piece for piece in pieces if piece is not None]


def merged(case: Case) -> Spelled:
    """The lines of all features of a case."""
    used = spelled(case)
    return Spelled(
        wrapped=tuple(line for piece in used for line in piece.wrapped),
        built=tuple(line for piece in used for line in piece.built),
        casts=tuple(line for piece in used for line in piece.casts),
        begun=tuple(line for piece in used for line in piece.begun),
        before=tuple(line for piece in used for line in piece.before),
        forwarded=tuple(line for piece in used for line in piece.forwarded),
        update=tuple(line for piece in used for line in piece.update),
        after=tuple(line for piece in used for line in piece.after),
        zero="".join(piece.zero for piece in used),
        zeroes=any(piece.zeroes for piece in used),
        reentrant=any(piece.reentrant for piece in used),
        forwards_first=next(filter(None, (piece.forwards_first for piece in used)), ""),
        penalty=next(filter(None, (piece.penalty for piece in used)), ""),
        forward_mode=next(filter(None, (piece.forward_mode for piece in used)), ""),
        in_place=any(piece.in_place for piece in used),
    )


def constructed(case: Case) -> str:
    """The optimizer of torch over `model.parameters()`."""
    used = spelled(case)
    kind, usual = OPTIMIZERS[case.training.optimizer]
    arguments = {"lr": python(case.training.learning_rate), **usual}
    for piece in used:
        kind = piece.kind or kind
        arguments = {**({} if piece.kind else arguments), **piece.arguments}
    parameters = next((piece.parameters for piece in used if piece.parameters), "model.parameters()")
    options = "".join(f", {name}={value}" for name, value in arguments.items())
    plain = f"torch.optim.{kind}({parameters}{options})"
    sharding = next((piece for piece in used if piece.around), None)
    if not sharding:
        return plain
    own = "".join(f", {name}={value}" for name, value in sharding.sharded.items())
    wrapped = f"{sharding.around}({parameters}, optimizer_class=torch.optim.{kind}{own}{options})"
    return f"{plain} if next(model.parameters()).dtype is torch.float64 else {wrapped}"
