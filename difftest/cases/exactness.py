"""The exact channel: cases in which every partial sum is representable.

Then any order of adding gives the same bits.

The ranges of all tensors (`difftest.cases.ranges`) are computed for forward, loss, backward and update: every
value is a multiple of `grain` and at most `bound`, sums of magnitudes included. While `bound / grain` fits
the significand, nothing rounds in any order of reduction on any number of ranks, and the tolerance is zero.
"""

import math
from collections.abc import Mapping, Sequence

from difftest.cases.case import Case
from difftest.cases.layer import Layer
from difftest.cases.numbers import EXACT_INPUTS, EXACT_WEIGHTS
from difftest.cases.ranges import Range, is_dyadic

SIGNIFICAND_BITS = {"float64": 53, "float32": 24, "bfloat16": 8, "float16": 11}
"""Stored bits and the implicit one: IEEE 754 binary64, binary32 and binary16, and bfloat16."""


def inexact(case: Case) -> str | None:
    """Why something may round in `case`, or None if nothing can."""
    if reason := _rounding_part(case):
        return reason
    weights = dict.fromkeys(case.model.parameters(), Range(EXACT_WEIGHTS, 1.0))
    for step in range(case.training.steps):
        ranges, weights = _step(case, weights)
        for what, values in ranges.items():
            if values.bits > _bits(case, what):
                needed = f"step {step}: {what} needs {math.ceil(values.bits)} bits of significand"
                return f"{needed}; {case.dtype} has {_bits(case, what)}"
    return None


def _rounding_part(case: Case) -> str | None:
    training, rows = case.training, case.data.batch * max(1, case.model.sequence)
    checks = {
        "inputs are not small integers": case.data.regime == "exact" and not case.model.tokens,
        **{reason: False for layer in case.model.layers if (reason := layer.rounds())},
        "targets of a teacher round": not case.data.learnable,
        "only the squared error is exact": training.loss == "mse",
        "only plain SGD is exact": training.optimizer == "sgd",
        "the norm for clipping rounds": training.clip_norm is None,
        "the learning rate is no power of two": is_dyadic(training.learning_rate),
        "the mean is over no power of two": is_dyadic(rows * case.model.outputs),
        "the gradients are averaged over no power of two": is_dyadic(case.layout.data_ranks),
    }
    return next((reason for reason, passed in checks.items() if not passed), None)


def _bits(case: Case, what: str) -> int:
    return SIGNIFICAND_BITS[case.loss_dtype if what == "loss" else case.dtype]


def _step(case: Case, weights: Mapping[str, Range]) -> tuple[dict[str, Range], dict[str, Range]]:
    """The ranges of one step by the name of the tensor, and the parameters' ranges after the step."""
    rows = case.data.batch * max(1, case.model.sequence)
    values = inputs = Range(EXACT_INPUTS, 1.0)
    ranges: dict[str, Range] = {}
    layer_inputs: list[Range] = []
    for index, layer in enumerate(case.model.layers):
        layer_inputs.append(values)
        values = layer.output_range(values, _own(layer, index, weights))
        ranges[f"output of layer {index}"] = values
    wrong = values + inputs
    count = rows * case.model.outputs
    ranges["loss"] = (wrong * wrong).summed(count)
    return ranges, _backward(case, weights, ranges, layer_inputs, wrong.scaled(2.0 / count))


def _backward(
    case: Case,
    weights: Mapping[str, Range],
    ranges: dict[str, Range],
    layer_inputs: Sequence[Range],
    gradient: Range,
) -> dict[str, Range]:
    """The parameters' ranges after the step; adds to `ranges` those of gradients and parameters."""
    rows = case.data.batch * max(1, case.model.sequence)
    updated = dict(weights)
    for index, layer in reversed(list(enumerate(case.model.layers))):
        held = _own(layer, index, weights)
        for own, values in layer.gradient_ranges(layer_inputs[index], gradient, rows, held).items():
            name = f"{index}.{own}"
            updated[name] = weights[name] + values.scaled(case.training.learning_rate)
            ranges[f"gradient of {name}"] = values
            ranges[f"parameter {name}"] = updated[name]
        gradient = layer.input_gradient_range(gradient, held)
        ranges[f"gradient entering layer {index}"] = gradient
    return updated


def _own(layer: Layer, index: int, weights: Mapping[str, Range]) -> Mapping[str, Range]:
    """The ranges of a layer's parameters by its own names."""
    return {name: weights[f"{index}.{name}"] for name in layer.shapes()}
