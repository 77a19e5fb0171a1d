"""The exact channel: cases in which every partial sum is representable, so that any order of adding gives the same bits.

A dyadic range is followed through forward, loss, backward and update: every value is a multiple of `grain` and at most `bound`,
sums of magnitudes included. While `bound / grain` fits the significand nothing can round, whatever is reduced in whatever order
on however many ranks, and the tolerance is zero.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from difftest.cases.case import Case
from difftest.cases.layers import Activation, Collective, Linear, Redistribute
from difftest.cases.numbers import EXACT_INPUTS, EXACT_WEIGHTS

SIGNIFICAND_BITS = {"float32": 24, "bfloat16": 8, "float16": 11}
"""IEEE 754 binary32 and binary16, and bfloat16: stored bits and the implicit one."""


@dataclass(frozen=True, slots=True)
class Range:
    """Multiples of `grain` up to `bound` in magnitude."""

    bound: float
    grain: float

    def __mul__(self, other: "Range") -> "Range":
        return Range(self.bound * other.bound, self.grain * other.grain)

    def __add__(self, other: "Range") -> "Range":
        return Range(self.bound + other.bound, min(self.grain, other.grain))

    def summed(self, terms: int) -> "Range":
        """The sum of that many."""
        return Range(self.bound * terms, self.grain)

    def scaled(self, factor: float) -> "Range":
        """Times a power of two."""
        return Range(self.bound * factor, self.grain * factor)

    @property
    def bits(self) -> float:
        """How many bits of significand hold every value."""
        return math.log2(self.bound / self.grain + 1)


def inexact(case: Case) -> str | None:
    """Why something may round in `case`, or None when nothing can."""
    if reason := _rounding_part(case):
        return reason
    weights = dict.fromkeys(case.model.parameters(), Range(EXACT_WEIGHTS, 1.0))
    for step in range(case.training.steps):
        seen, weights = _step(case, weights)
        for what, values in seen.items():
            if values.bits > _bits(case, what):
                return f"step {step}: {what} needs {math.ceil(values.bits)} bits of significand; {case.dtype} has {_bits(case, what)}"
    return None


def _rounding_part(case: Case) -> str | None:
    training, rows = case.training, case.data.batch * max(1, case.model.sequence)
    ranks = math.prod(size for name, size in case.layout.mesh.axes if name in case.layout.batch_axes)
    checks = {
        "inputs are not small integers": case.data.regime == "exact" and not case.model.tokens,
        "a layer other than Linear and relu rounds": all(
            isinstance(layer, Linear | Collective | Redistribute) or layer == Activation(function="relu")
            for layer in case.model.layers
        ),
        "the factor of a collective is no power of two": all(
            _dyadic(layer.factor) for layer in case.model.layers if isinstance(layer, Collective)
        ),
        "targets of a teacher round": not case.data.learnable,
        "only the squared error is exact": training.loss == "mse",
        "only plain SGD is exact": training.optimizer == "sgd",
        "the norm for clipping rounds": training.clip_norm is None,
        "the learning rate is no power of two": _dyadic(training.learning_rate),
        "the mean is over no power of two": _dyadic(rows * case.model.outputs),
        "the gradients are averaged over no power of two": _dyadic(ranks),
    }
    return next((reason for reason, passed in checks.items() if not passed), None)


def _dyadic(number: float) -> bool:
    return math.frexp(number)[0] == 0.5  # noqa: PLR2004  the significand of a power of two


def _bits(case: Case, what: str) -> int:
    return SIGNIFICAND_BITS["float32" if what == "loss" else case.dtype]


def _step(case: Case, weights: Mapping[str, Range]) -> tuple[dict[str, Range], dict[str, Range]]:
    """The ranges of one step by what they are of, and the parameters' ranges after it."""
    rows = case.data.batch * max(1, case.model.sequence)
    values = inputs = Range(EXACT_INPUTS, 1.0)
    seen: dict[str, Range] = {}
    fed: dict[int, Range] = {}
    for index, layer in enumerate(case.model.layers):
        if isinstance(layer, Linear):
            fed[index] = values
            values = (values * weights[f"{index}.weight"]).summed(layer.inputs)
            values = values + weights[f"{index}.bias"] if layer.bias else values
            seen[f"output of layer {index}"] = values
        elif isinstance(layer, Collective):
            values = _collected(layer, values)
            seen[f"output of layer {index}"] = values
    wrong = values + inputs
    count = rows * case.model.outputs
    seen["loss"] = (wrong * wrong).summed(count)
    return _backward(case, weights, seen, fed, wrong.scaled(2.0 / count))


def _collected(layer: Collective, values: Range) -> Range:
    """A sum has as many terms as the group has ranks; every other collective moves or chooses. The factor shifts the range."""
    adds = layer.operation in ("all_reduce", "reduce_scatter") and layer.reduction == "sum"
    return (values.summed(layer.ranks) if adds else values).scaled(layer.factor)


def _backward(
    case: Case, weights: Mapping[str, Range], seen: dict[str, Range], fed: dict[int, Range], gradient: Range
) -> tuple[dict[str, Range], dict[str, Range]]:
    rows = case.data.batch * max(1, case.model.sequence)
    updated = dict(weights)
    for index, values in reversed(fed.items()):
        layer = case.model.layers[index]
        assert isinstance(layer, Linear)  # noqa: S101  only these were fed
        grads = {"weight": (gradient * values).summed(rows), "bias": gradient.summed(rows)}
        for name in ("weight", "bias") if layer.bias else ("weight",):
            seen[f"gradient of {index}.{name}"] = grads[name]
            updated[f"{index}.{name}"] = weights[f"{index}.{name}"] + grads[name].scaled(
                case.training.learning_rate
            )
            seen[f"parameter {index}.{name}"] = updated[f"{index}.{name}"]
        gradient = (gradient * weights[f"{index}.weight"]).summed(layer.outputs)
        seen[f"gradient entering layer {index}"] = gradient
    return seen, updated
