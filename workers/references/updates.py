"""The updates of a run by their definitions: from gradients to parameters, step by step.

The gradients and the parameters before each step are torch's own, so that an error is of the step that
makes it. What an optimizer keeps from step to step follows from the gradients of all earlier steps.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from difftest.cases.case import Case
from difftest.cases.feature import FeatureOptions, typed
from difftest.cases.features import (
    amsgrad,
    averaged_weights,
    clip_by_infinity_norm,
    clip_by_value,
    maximize,
    nesterov,
    optimizer,
    parameter_groups,
    schedule,
    weight_decay,
)
from workers.references import clipping, schedules
from workers.references.optimizers import Floats, Optimizer

Tensors = Mapping[str, Floats]

OPTIMIZERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "sgd": ("sgd", {}),
    "momentum": ("sgd", {"momentum": 0.875}),
    "adam": ("adam", {}),
    "adamw": ("adamw", {"weight_decay": 0.125}),
    "none": ("sgd", {"lr": 0.0}),
}
"""A case's optimizers: the definition of each, and its options beside the learning rate."""


def lacks(case: Case) -> str:
    """Why a case's updates have no definition here; empty where they have one."""
    optimizer = case.training.optimizer
    return "" if optimizer in OPTIMIZERS else f"no definition of the optimizer {optimizer!r}"


def updates(case: Case, before: Iterable[Tensors], gradients: Iterable[Tensors]) -> list[Tensors]:
    """The parameters after each step.

    `before` has those before it, and `gradients` has theirs; a parameter without one stays as it is.
    """
    used = typed(case.training_features)
    name, options = _chosen(case, used)
    definition, average, results = Optimizer(name), dict[str, Floats](), list[Tensors]()
    for step, (parameters, own) in enumerate(zip(before, gradients, strict=True)):
        clipped, after = _clipped(case, used, own), dict[str, Floats]()
        at = {**options, "lr": _rate(used, options["lr"], step)}
        for parameter, values in parameters.items():
            given = at | _of_its_group(used, values)
            moves = parameter in clipped
            after[parameter] = (
                definition.step(parameter, values, clipped[parameter], given) if moves else values
            )
        results.append(_averaged(used, average, after, last=step == case.training.steps - 1))
    return results


def _chosen(case: Case, used: Iterable[FeatureOptions]) -> tuple[str, dict[str, Any]]:
    """The optimizer of a case and its options, as its features change them."""
    name, others = OPTIMIZERS[case.training.optimizer]
    options = {"lr": case.training.learning_rate, **others}
    for feature in used:
        match feature:
            case optimizer.Options():
                name, options = feature.kind, {"lr": feature.rate}
            case amsgrad.Options():
                options["amsgrad"] = True
            case nesterov.Options():
                options["nesterov"] = True
            case weight_decay.Options():
                options["weight_decay"] = feature.decay
    if any(isinstance(feature, maximize.Options) for feature in used):
        options["maximize"] = True
    return name, options


def _of_its_group(used: Iterable[FeatureOptions], values: Floats) -> dict[str, Any]:
    """The options of the group of vectors, which a feature gives them."""
    group = next((one for one in used if isinstance(one, parameter_groups.Options)), None)
    return {"weight_decay": group.decay} if group and values.ndim <= 1 else {}


def _rate(used: Iterable[FeatureOptions], first: float, step: int) -> float:
    """The learning rate of a step."""
    schedule_of_case = next((one for one in used if isinstance(one, schedule.Options)), None)
    return schedules.rate(schedule_of_case, first, step) if schedule_of_case else first


def _clipped(case: Case, used: Iterable[FeatureOptions], gradients: Tensors) -> Tensors:
    """The gradients as the optimizer gets them."""
    if case.training.clip_norm is not None:
        gradients = clipping.by_norm(gradients, case.training.clip_norm)
    for feature in used:
        match feature:
            case clip_by_infinity_norm.Options():
                gradients = clipping.by_norm(gradients, feature.norm, math.inf)
            case clip_by_value.Options():
                gradients = clipping.by_value(gradients, feature.value)
    return gradients


def _averaged(
    used: Iterable[FeatureOptions], average: dict[str, Floats], after: Tensors, *, last: bool
) -> Tensors:
    """What the model has after a step: in the end, the moving average, where a feature keeps one.

    It begins as the weights after the first update.
    """
    for feature in used:
        if isinstance(feature, averaged_weights.Options):
            for name, values in after.items():
                kept = average.get(name, values)
                average[name] = feature.decay * kept + (1 - feature.decay) * values
            return dict(average) if last else after
    return after
