"""The updates of a run by their definitions: from gradients to parameters, step by step.

The gradients and the parameters before each step are torch's own, so that an error is of the step that
makes it. What an optimizer keeps from step to step follows from the gradients of all earlier steps.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from difftest.cases.case import Case
from difftest.cases.feature import has, of, typed
from difftest.cases.features import (
    averaged_weights,
    clip_by_infinity_norm,
    clip_by_value,
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
    if has(case, "muon"):
        return "Muon trains matrices alone; these updates are of all parameters"
    optimizer = case.training.optimizer
    return "" if optimizer in OPTIMIZERS else f"no definition of the optimizer {optimizer!r}"


def updates(case: Case, before: Iterable[Tensors], gradients: Iterable[Tensors]) -> Sequence[Tensors]:
    """The parameters after each step.

    `before` has those before it, and `gradients` has theirs; a parameter without one stays as it is.
    """
    name, options = _chosen(case)
    scheduled, vectors = of(case, schedule.Options), of(case, parameter_groups.Options)
    definition, results = Optimizer(name), list[Tensors]()
    for step, (parameters, own) in enumerate(zip(before, gradients, strict=True)):
        rate = schedules.rate(scheduled, options["lr"], step) if scheduled else options["lr"]
        after = dict(parameters)
        for parameter, gradient in _clipped(case, own).items():
            values = parameters[parameter]
            decay = {"weight_decay": vectors.decay} if vectors and values.ndim <= 1 else {}
            after[parameter] = definition.step(parameter, values, gradient, {**options, "lr": rate, **decay})
        results.append(after)
    return _averaged(case, results)


def _chosen(case: Case) -> tuple[str, dict[str, Any]]:
    """The optimizer of a case and its options, as its features change them."""
    name, others = OPTIMIZERS[case.training.optimizer]
    options = {"lr": case.training.learning_rate, **others}
    if another := of(case, optimizer.Options):
        name, options = another.kind, {"lr": another.rate}
    if decayed := of(case, weight_decay.Options):
        options["weight_decay"] = decayed.decay
    flags = ("amsgrad", "maximize", "nesterov")
    return name, options | {flag: True for flag in flags if has(case, flag)}


def _clipped(case: Case, gradients: Tensors) -> Tensors:
    """The gradients as the optimizer gets them."""
    if case.training.clip_norm is not None:
        gradients = clipping.by_norm(gradients, case.training.clip_norm)
    for feature in typed(case.training_features):
        match feature:
            case clip_by_infinity_norm.Options():
                gradients = clipping.by_norm(gradients, feature.norm, feature.order)
            case clip_by_value.Options():
                gradients = clipping.by_value(gradients, feature.value)
    return gradients


def _averaged(case: Case, results: Sequence[Tensors]) -> Sequence[Tensors]:
    """What the model has after each step: in the end, the moving average, where a feature keeps one.

    It begins as the weights after the first update.
    """
    averaging = of(case, averaged_weights.Options)
    if averaging is None:
        return results
    average = results[0]
    for after in results:
        average = {
            name: averaging.decay * average[name] + (1 - averaging.decay) * values
            for name, values in after.items()
        }
    return [*results[:-1], average]
