"""The numbers of a case: initial weights and batches, made on the host by numpy from the case's seed alone.

Every backend receives these same arrays, so no random number is drawn on a device. Values are rounded to the
case's dtype here, so that every backend represents them exactly.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from difftest.cases import operands
from difftest.cases.case import Case, DType, Regime
from difftest.cases.draws import Floats, random, round_to
from difftest.cases.layer import Layer

IGNORE_INDEX = -100
EXACT_WEIGHTS = 1
EXACT_INPUTS = 2
MOST_SEGMENTS = 3
ZEROS = 0.5
"""The share of zeros in the regime of that name."""

SHARPNESS = 256.0
"""In the regime `sharp`, queries are this many times as large as usual.

The exponential of attention's scores then overflows float32, which it does above 88.
"""

Integers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch on the host.

    `inputs` are (rows, width), (rows, sequence, width) or token ids (rows, sequence). `targets` have the
    output's shape for mse; for cross_entropy they are class ids without the last dim, `IGNORE_INDEX` where
    there is none. `count` divides the summed loss: the number of target values that are not ignored. `extras`
    are what single layers read, by name: segment ids `segments` (rows, sequence), and `mask PATH` for every
    layer that reads a mask, in the shape of its input. Where a pipeline's stages are given more than inputs,
    they have its `factors` and `offsets` (rows).
    """

    inputs: Floats | Integers
    targets: Floats | Integers
    count: int
    extras: Mapping[str, Floats | Integers] = field(default_factory=dict)

    def rows(self, part: slice) -> "Batch":
        """The rows in `part`, with the count of the whole batch, so that the parts' losses add up."""
        extras = {name: array[part] for name, array in self.extras.items()}
        return Batch(inputs=self.inputs[part], targets=self.targets[part], count=self.count, extras=extras)


def weights(case: Case) -> Mapping[str, Floats]:
    """The initial parameters by name, and those buffers of a program that have placements.

    None for a module of the user's, which brings its own.
    """
    if case.model.own:
        return {}
    if case.model.is_program:
        return operands.all_values(case)
    return {
        name: round_to(case.dtype, _weight(case, name, shape))
        for name, shape in case.model.parameters().items()
    }


def cotangent(case: Case, name: str, shape: tuple[int, ...]) -> Floats:
    """What the result `name` of a program is multiplied by in the loss: (`shape`)."""
    return round_to(case.dtype, random(case, f"cotangent {name}").standard_normal(shape))


def batch(case: Case, step: int) -> Batch:
    """The batch of `step`; a learnable task has the same batch in every step."""
    rng = random(case, f"batch {0 if case.data.learnable else step}")
    inputs = _inputs(case, rng)
    targets = _targets(case, rng, inputs)
    count = (
        max(1, int((targets != IGNORE_INDEX).sum()))
        if case.training.loss == "cross_entropy"
        else targets.size
    )
    extras: dict[str, Floats | Integers] = {"segments": _segments(case, rng)} if case.model.segments else {}
    extras |= {f"mask {path}": _mask(case, layer, step) for path, layer in case.model.masked.items()}
    extras |= _beside(case, step)
    return Batch(inputs=inputs, targets=targets, count=count, extras=extras)


def digest(case: Case) -> str:
    """A digest of the numbers: if two machines have different ones, they did not run the same case."""
    arrays: list[Floats | Integers] = [*weights(case).values()]
    if not case.model.is_program:
        first = batch(case, 0)
        arrays += [first.inputs, first.targets, *first.extras.values()]
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()[:12]


def _weight(case: Case, name: str, shape: tuple[int, ...]) -> Floats:
    rng = random(case, f"weight {name}")
    if case.data.regime == "exact":
        return rng.integers(-EXACT_WEIGHTS, EXACT_WEIGHTS + 1, shape).astype(np.float64)
    if len(shape) == 1:
        ones = 1.0 if name.endswith("weight") else 0.0
        return ones + rng.uniform(-0.25, 0.25, shape)
    sharp = SHARPNESS if case.data.regime == "sharp" and name in case.model.attention_queries else 1.0
    return rng.uniform(-1.0, 1.0, shape) * (sharp * math.sqrt(3.0 / fan_in(shape)))


def _inputs(case: Case, rng: np.random.Generator) -> Floats | Integers:
    rows, model = case.data.batch, case.model
    if model.tokens:
        return rng.integers(0, model.tokens, (rows, model.sequence))
    shape = (rows, model.sequence, model.inputs) if model.sequence else (rows, model.inputs)
    return round_to(case.dtype, _values(case.data.regime, rng, shape, case.dtype))


def _values(regime: Regime, rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Floats:
    normal = rng.standard_normal(shape)
    match regime:
        case "exact":
            return rng.integers(-EXACT_INPUTS, EXACT_INPUTS + 1, shape).astype(np.float64)
        case "large":
            return normal * (16.0 if dtype == "float16" else 1024.0)
        case "tiny":
            return normal / 4096.0
        case "ties":
            return rng.integers(-1, 2, shape).astype(np.float64)
        case "zeros":
            return normal * (rng.random(shape) < ZEROS)
        case _:
            return normal


def _targets(case: Case, rng: np.random.Generator, inputs: Floats | Integers) -> Floats | Integers:
    model = case.model
    shape = inputs.shape[:2] if model.sequence else inputs.shape[:1]
    if case.training.loss == "mse":
        return round_to(case.dtype, _regression_targets(case, rng, inputs, (*shape, model.outputs)))
    return np.where(rng.random(shape) < case.data.ignored, IGNORE_INDEX, _classes(case, rng, inputs, shape))


def _classes(
    case: Case, rng: np.random.Generator, inputs: Floats | Integers, shape: tuple[int, ...]
) -> Integers:
    if not case.data.learnable:
        return rng.integers(0, case.model.outputs, shape)
    if case.model.tokens:
        return np.asarray(inputs % case.model.outputs, dtype=np.int64)
    return np.asarray(_teacher(case, inputs).argmax(-1), dtype=np.int64)


def _regression_targets(
    case: Case, rng: np.random.Generator, inputs: Floats | Integers, shape: tuple[int, ...]
) -> Floats:
    if not case.data.learnable:
        return _values(case.data.regime, rng, shape, case.dtype)
    if case.model.tokens:
        table = random(case, "teacher").standard_normal((case.model.tokens, case.model.outputs))
        return np.asarray(table[inputs])
    return _teacher(case, inputs)


def _teacher(case: Case, inputs: Floats | Integers) -> Floats:
    """The outputs of a random linear map.

    They are summed column by column, because the last bit of a matrix product depends on the machine.
    """
    width = case.model.inputs
    table = random(case, "teacher").standard_normal((width, case.model.outputs))
    answers = np.zeros((*inputs.shape[:-1], case.model.outputs))
    for column in range(width):
        answers += inputs[..., column, np.newaxis] * table[column]
    return answers / math.sqrt(width)


def _segments(case: Case, rng: np.random.Generator) -> Integers:
    """Segment ids (rows, sequence) of packed sequences.

    They never decrease along a row, and change at random positions in every row.
    """
    steps = rng.random((case.data.batch, case.model.sequence)) < MOST_SEGMENTS / max(
        case.model.sequence, MOST_SEGMENTS
    )
    return np.cumsum(steps, axis=1)


def _beside(case: Case, step: int) -> Mapping[str, Floats]:
    """What a pipeline's stages are given beside their inputs (rows), of which some forms have equal rows."""
    beside = case.staged.beside if case.staged else "nothing"
    if beside == "nothing":
        return {}
    names = ("factors", "offsets") if beside == "pair" else ("factors",)
    rows, rng = case.data.batch, random(case, f"beside {step}")
    drawn = rng.uniform(0.5, 1.5, (len(names), rows if beside in {"rows", "pair"} else 1))
    return {
        name: round_to(case.dtype, np.broadcast_to(one, rows)) for name, one in zip(names, drawn, strict=True)
    }


def fan_in(shape: tuple[int, ...]) -> int:
    """The number of inputs to one output of a weight of `shape` (outputs, inputs, ...)."""
    return math.prod(shape[1:])


def _mask(case: Case, layer: Layer, step: int) -> Floats:
    """The mask of `layer`: another one in every step, from the same random numbers for every layer."""
    lead = (case.data.batch, *((case.model.sequence,) if case.model.sequence else ()))
    return round_to(case.dtype, layer.mask(lead, random(case, f"dropout {step}")))
