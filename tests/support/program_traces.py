"""Traces of programs made by hand: the oracle's values with their noise, and a candidate's, cut as placed."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from difftest.cases.case import Case
from difftest.cases.layout import local_slices, replicated
from difftest.judge.comparator import Comparison, compare
from difftest.judge.divergence import Divergence
from difftest.judge.events import Events, Fact
from difftest.judge.noise import spread
from difftest.judge.outcome import Outcome, Sharded, Trace
from difftest.judge.stage import Stage

Array: TypeAlias = npt.NDArray[Any]
Key: TypeAlias = tuple[Stage, str]
Values: TypeAlias = Mapping[Key, Array]

RESULT = (Stage.FORWARD, "0.output")
GRADIENT = (Stage.BACKWARD, "0.input")
OPERAND = (Stage.UPDATE, "0.input")
ROUNDOFF = 2.0**-24


def held(case: Case, key: Key, value: Array, dtype: str | None = None) -> Sharded:
    """A whole tensor as the ranks of a case hold it; a result's placements are replicas."""
    mesh, shape = case.layout.mesh, value.shape
    placements = case.layout.parameters.get(key[1], replicated(mesh))
    pieces = {
        rank: np.array(value[local_slices(shape, placements, mesh, rank)]) for rank in range(mesh.world_size)
    }
    return Sharded(shape=shape, dtype=dtype or str(value.dtype), placements=placements, pieces=pieces)


def trace(
    case: Case,
    values: Values,
    facts: Mapping[str, Fact] | None = None,
    dtypes: Mapping[str, str] | None = None,
) -> Trace:
    """A candidate's trace of these values; `dtypes` are those of tensors whose arrays have another."""
    own = dtypes or {}
    tensors = {key: held(case, key, np.asarray(value), own.get(key[1])) for key, value in values.items()}
    return Trace(steps=(tensors,), events=Events(facts=dict(facts or {})))


def oracle(  # noqa: PLR0913  what the oracle's runs may give
    case: Case,
    values: Values,
    *,
    samples: Sequence[Values] = (),
    native: Values | None = None,
    in_range: bool = True,
    facts: Mapping[str, Fact] | None = None,
    dtypes: Mapping[str, str] | None = None,
) -> Trace:
    """The oracle's trace; `samples` and `native` have what its further runs gave otherwise.

    `dtypes` are those of the run in the case's dtype, by default float32.
    """
    alone = case.unsharded()
    wide = {key: _wide(np.asarray(value)) for key, value in values.items()}
    truth = trace(alone, wide)
    runs = [trace(alone, {**wide, **sample}) for sample in samples or ({},)]
    own = trace(
        alone, {**wide, **(native or {})}, dtypes={name: "float32" for _, name in wide} | dict(dtypes or {})
    )
    noise, farthest = spread(truth, runs, own, ROUNDOFF, by_element=True)
    events = Events(in_range=in_range, native=farthest, facts=dict(facts or {}))
    return Trace(steps=truth.steps, noise=noise, events=events)


def _wide(value: Array) -> Array:
    return value if value.dtype.kind in "iu" else value.astype(np.float64)


def compared(case: Case, expected: Outcome, actual: Outcome) -> Comparison:
    """The comparison of two runs."""
    return compare(case, "xla_spmd", "xla", expected, actual)


def first(case: Case, expected: Outcome, actual: Outcome) -> Divergence:
    """What the comparison of two runs, which must diverge, shows first."""
    comparison = compared(case, expected, actual)
    assert comparison.verdict == "diverge", comparison
    return comparison.divergences[0]
