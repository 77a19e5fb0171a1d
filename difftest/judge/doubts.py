"""Why agreement may mean nothing: nothing could have differed, or rounding hides everything."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from difftest.cases import numbers
from difftest.cases.layout import ALONE
from difftest.judge.measured import MeasuredRun, Measurement
from difftest.judge.noise import NATIVE_MOST, THRESHOLD
from difftest.judge.outcome import Array, Sharded, Tensors, Trace
from difftest.judge.stage import STAGES, Stage

VAGUE = 0.25
"""A floor above this share of a tensor's values leaves nothing to compare."""

LEAST_DENSITY = 0.02
"""A tensor with a smaller share of values other than zero can show no difference."""

SUBNORMAL = 2.0**-126
"""The least normal number of float32 and bfloat16."""

NOISE = "rounding noise is as large as the values"


class Doubt(NamedTuple):
    """Why agreement would mean nothing: in words that are equal for every case, and in full."""

    kind: str
    reason: str


def doubt(run: MeasuredRun, farthest: tuple[Measurement, ...]) -> Doubt | None:
    """Why it means nothing that `run` agrees with the oracle; None where it means something.

    `farthest` has each tensor at the step where it was farthest from the oracle.
    """
    if lacks := _lacking(run):
        return lacks
    if run.case.model.is_program:
        return _program(run, farthest)
    return (
        _nothing_compared(farthest)
        or _nothing_varies(run)
        or _nothing_moves(run)
        or _wide_band(run)
        or _untrusted(run.expected, run.case.dtype)
    )


def out_of_range(dtype: str) -> Doubt:
    """The doubt where values leave the range of the dtype."""
    return Doubt("values out of range", f"values leave the range of {dtype}")


def compares(measurement: Measurement) -> bool:
    """Whether a tensor of a program could have differed: not all of it is undecided or hidden by noise.

    A tensor without elements could not, and neither could one that is zero but for rounding. Subnormal values
    may be flushed to zero, which hides no other value.
    """
    decided = measurement.elements > measurement.undecided
    return decided and measurement.floor <= max(VAGUE * measurement.scale, SUBNORMAL)


def _program(run: MeasuredRun, measurements: Iterable[Measurement]) -> Doubt | None:
    """The doubt where nothing of a program's results and gradients could have differed.

    Operands say nothing, since most operators leave them as they are; nor does the loss. Of results without
    elements, shape and dtype are compared.
    """
    of_values = [m for m in measurements if m.stage != Stage.UPDATE and m.tensor != "loss"]
    if not of_values:
        nothing = "there is no result to compare"
        return Doubt(nothing, nothing)
    if any(map(compares, of_values)) or not any(m.elements for m in of_values):
        return None
    if not run.expected.events.in_range:
        return out_of_range(run.case.dtype)
    return _untrusted(run.expected, run.case.dtype) or Doubt(NOISE, f"all results and gradients: {NOISE}")


def _lacking(run: MeasuredRun) -> Doubt | None:
    """The doubt where the oracle lacks a step, or a tensor with which something should have been compared.

    A gradient that the oracle has not may be zero in the run, which moves nothing.
    """
    steps, case = run.expected.steps, run.case
    if len(steps) < case.training.steps:
        return Doubt("the oracle lacks steps", f"the oracle has {len(steps)} of {case.training.steps} steps")
    if case.model.is_program:
        return None  # of what the oracle lacks there, each tensor is unexpected (the check `shape`)
    of_a_step = [(Stage.FORWARD, "output"), (Stage.FORWARD, "loss")]
    of_a_step += [(Stage.UPDATE, name) for name in case.model.parameters()]
    always = [(step, *key) for step in range(len(steps)) for key in of_a_step]
    gradients = (
        key
        for key, tensor in run.tensors()
        if key[1] is Stage.BACKWARD and key[0] < len(steps) and key[1:] not in steps[key[0]] and _any(tensor)
    )
    for step, stage, name in (*always, *gradients):
        if (stage, name) not in steps[step]:
            return Doubt("the oracle lacks tensors", f"step {step}: the oracle has no {stage} {name}")
    return None


def _nothing_varies(run: MeasuredRun) -> Doubt | None:
    """The doubt where at some stage the oracle has only constants and zeros."""
    stages = dict.fromkeys(stage for step in run.expected.steps for stage, _ in step)
    for stage in stages:
        tensors = [tensor for step in run.expected.steps for (at, _), tensor in step.items() if at is stage]
        if not any(_varies(piece) for tensor in tensors for piece in tensor.pieces.values()):
            what = "every tensor of the oracle is constant or nearly all zero"
            return Doubt("constant tensors", f"{stage}: {what}")
    return None


def _nothing_moves(run: MeasuredRun) -> Doubt | None:
    """The doubt where no update changes any parameter of the oracle, although there are gradients."""
    steps, buffers = run.expected.steps, run.case.model.statistics()
    before = [numbers.weights(run.case)] if len(steps) == 1 else [_parameters(step) for step in steps[:-1]]
    pairs = [
        (earlier[name], value)
        for earlier, step in zip(before, steps[-len(before) :], strict=True)
        for name, value in _parameters(step).items()
        if name in earlier and name not in buffers and _has_gradient(step, name)
    ]
    if not pairs or any(not np.array_equal(*pair) for pair in pairs):
        return None
    return Doubt(
        "the oracle's parameters do not move", "no update moves a parameter, and there are gradients"
    )


def _parameters(step: Tensors) -> dict[str, Array]:
    return {name: tensor.full(ALONE) for (stage, name), tensor in step.items() if stage is Stage.UPDATE}


def _has_gradient(step: Tensors, name: str) -> bool:
    gradient = step.get((Stage.BACKWARD, name))
    return gradient is not None and _any(gradient)


def _any(tensor: Sharded) -> bool:
    """Whether any value is not zero."""
    return any(piece.any() for piece in tensor.pieces.values())


def _varies(values: Array) -> bool:
    """Whether values can show a difference: enough of them are not zero, and they are not all the same."""
    dense = np.count_nonzero(values) >= max(1.0, LEAST_DENSITY * values.size)
    return bool(dense and (values.size == 1 or (values != values.flat[0]).any()))


def _wide_band(run: MeasuredRun) -> Doubt | None:
    """The doubt where an agreeing loss shows no convergence: its band is as wide as it is high."""
    loss = run.measured.get((run.case.training.steps - 1, Stage.FORWARD, "loss"))
    if not run.case.data.learnable or loss is None or THRESHOLD * loss.floor <= loss.scale:
        return None
    move = f"rounding alone may move it by {THRESHOLD * loss.floor:.2g}"
    return Doubt("the loss is mere noise", f"step {loss.step}: the loss is {loss.scale:.3g} and {move}")


def _nothing_compared(measurements: Iterable[Measurement]) -> Doubt | None:
    """The doubt where all is zero, or noise hides all values of a stage."""
    compared = [m for m in measurements if m.scale > 0.0]
    if not compared:
        zero = "every tensor compared is zero"
        return Doubt(zero, zero)
    vague = {m.stage for m in compared} - {m.stage for m in compared if m.floor <= VAGUE * m.scale}
    stages = ", ".join(stage for stage in STAGES if stage in vague)
    return Doubt(NOISE, f"{stages}: {NOISE}") if stages else None


def _untrusted(expected: Trace, dtype: str) -> Doubt | None:
    """The doubt where the floor may be too high.

    A fault of torch's own kernels on the CPU raises every floor, and simulated rounding does not explain it.
    """
    native = expected.events.native
    if native <= NATIVE_MOST:
        return None
    off = f"{native:.3g} times as far from float64 as simulated rounding takes it"
    return Doubt("torch's own run is too far off", f"torch's own run in {dtype} is {off}")
