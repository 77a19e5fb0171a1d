"""Smaller bundles: of a case whose runs all agree with the oracle, what the agreement rests on.

Such a case keeps few digits of the oracle and of its noise, and of every other run its difference from the
oracle, in eighths of the noise of each element: that is what the checks measure. What would be kept is judged
beforehand, beside the runs themselves. A case in which anything differs, fails or would be judged otherwise
stays as it was recorded, to the last bit.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from difftest.cases.case import Case
from difftest.cases.layout import ALONE, local_slices
from difftest.ground.errors import UsageError
from difftest.judge.comparator import compare
from difftest.judge.outcome import Array, Sharded, Tensors, Trace

FEWEST_ELEMENTS = 17
"""Tensors with fewer elements, such as losses, are kept as they are."""

DIGITS = 3
"""How many binary digits the oracle's values and noise keep after the first one."""

UNITS_OF_NOISE = 8
"""A difference is a number of units; so many are an element's noise, rounded down to a power of two."""

MANTISSA_BITS = 52
COUNT = np.int16
ZERO, NEGATIVE_ZERO = np.iinfo(COUNT).min, np.iinfo(COUNT).min + 1
"""The counts that stand for zeros where the oracle has none, whatever the difference is."""

MOST = int(np.iinfo(COUNT).max) - 1

Floats = npt.NDArray[np.float64]


def condensed(
    case: Case, truth: Trace, runs: Mapping[int, tuple[str, str, Trace]]
) -> tuple[Trace, dict[int, Trace]] | None:
    """The oracle's trace and the others', by number, as they are kept; None where they must stay as they are.

    `runs` has the backend, the side and the trace of every other run.
    """
    if not all(_finite(truth)):
        return None
    rough, kept = _rough(truth), dict[int, Trace]()
    for number, (backend, side, run) in runs.items():
        difference = _difference(case, truth, rough, run)
        if difference is None:
            return None
        restored = restore(case, rough, rough, difference)
        pairs = ((truth, run), (rough, restored))
        verdicts = {compare(case, backend, side, *pair).verdict for pair in pairs}
        if verdicts != {"agree"} or not _same_zeros(run, restored):
            return None
        kept[number] = difference
    alike = _distinct(run for _, _, run in runs.values()) == _distinct(kept.values())
    return (rough, kept) if alike else None


def restore(case: Case, values: Trace, noise: Trace, difference: Trace) -> Trace:
    """The run that differs so from `values`, an oracle's; `noise` is the oracle's in whose noise it counts.

    `UsageError` where they do not belong together.
    """
    try:
        steps = tuple(
            {key: _restored(case, tensor, step.get(key), noises.get(key)) for key, tensor in tensors.items()}
            for tensors, step, noises in zip(difference.steps, values.steps, noise.noise, strict=True)
        )
    except (ValueError, IndexError, KeyError) as error:
        msg = f"a condensed run of case {case.id} does not fit its oracle: {error}"
        raise UsageError(msg) from error
    return replace(difference, steps=steps)


def shortened(values: Array) -> Floats:
    """Finite values with few binary digits, rounded; zeros keep their signs."""
    dropped = MANTISSA_BITS - DIGITS
    bits = np.array(values, np.float64).view(np.int64)
    return ((bits + (1 << (dropped - 1))) >> dropped << dropped).view(np.float64)


def _applies(tensor: Sharded) -> bool:
    return not tensor.is_discrete and int(np.prod(tensor.shape)) >= FEWEST_ELEMENTS


def _finite(truth: Trace) -> Iterator[bool]:
    for step, noises in zip(truth.steps, truth.noise, strict=True):
        for key, tensor in step.items():
            yield bool(np.isfinite(tensor.full(ALONE)).all() and np.isfinite(noises[key].full(ALONE)).all())


def _rough(truth: Trace) -> Trace:
    def short(step: Tensors, tensors: Tensors) -> Tensors:
        return {
            key: _short(tensor) if key in step and _applies(step[key]) else tensor
            for key, tensor in tensors.items()
        }

    noise = tuple(map(short, truth.steps, truth.noise))
    return replace(truth, steps=tuple(map(short, truth.steps, truth.steps)), noise=noise)


def _short(tensor: Sharded) -> Sharded:
    """The tensor with few digits, in float32 where that holds them."""
    pieces = {rank: shortened(piece) for rank, piece in tensor.pieces.items()}
    with np.errstate(over="ignore"):
        single = {rank: piece.astype(np.float32) for rank, piece in pieces.items()}
    holds = all(np.array_equal(single[rank], piece) for rank, piece in pieces.items())
    return replace(tensor, pieces=single if holds else pieces)


def _units(noise: Sharded) -> Floats:
    """The unit of each element of a whole tensor: a power of two, or 0 where there is no noise."""
    deviation = noise.full(ALONE)
    _, exponents = np.frexp(deviation)
    units: Floats = np.where(deviation > 0, np.ldexp(0.5 / UNITS_OF_NOISE, exponents), 0.0)
    return units


def _difference(case: Case, truth: Trace, rough: Trace, run: Trace) -> Trace | None:
    """The run as differences from the oracle; None where one of them is no number of units."""
    steps = list[Tensors]()
    for tensors, step, noises in zip(run.steps, truth.steps, rough.noise, strict=True):
        made = dict(tensors)
        for key, tensor in tensors.items():
            if key not in step or not _applies(step[key]):
                continue
            if tensor.misfits(case.layout.mesh):
                return None
            expected, units, counts = step[key].full(ALONE), _units(noises[key]), dict[int, Array]()
            for rank, piece in tensor.pieces.items():
                own = local_slices(tensor.shape, tensor.placements, case.layout.mesh, rank)
                count = _counted(piece.astype(np.float64), expected[own], units[own])
                if count is None:
                    return None
                counts[rank] = count
            made[key] = replace(tensor, pieces=counts)
        steps.append(made)
    return replace(run, steps=tuple(steps))


def _counted(piece: Floats, expected: Floats, units: Floats) -> Array | None:
    """A piece's difference from the oracle, in units; None where it is not a number of them."""
    off = piece - expected
    with np.errstate(all="ignore"):
        count = np.where(off == 0, 0.0, np.rint(off / units))
    if not (np.abs(count) <= MOST).all():  # NaN is not either
        return None
    negative = np.signbit(piece)
    other_zero = (piece == 0) & ((expected != 0) | (negative != np.signbit(expected)))
    count = np.where(other_zero, np.where(negative, NEGATIVE_ZERO, ZERO), count)
    count = np.where((count == 0) & (expected == 0) & (piece != 0), np.sign(piece), count)  # is no zero
    return count.astype(COUNT)


def _of_counts(count: Array, expected: Floats, units: Floats) -> Floats:
    whole: Floats = np.where(count == 0, expected, expected + count * units)
    return np.select([count == ZERO, count == NEGATIVE_ZERO], [0.0, -0.0], whole)


def _restored(case: Case, tensor: Sharded, truth: Sharded | None, noise: Sharded | None) -> Sharded:
    if truth is None or noise is None or not _applies(truth):
        return tensor
    if not truth.shape == noise.shape == tensor.shape or tensor.misfits(case.layout.mesh):
        msg = f"a tensor of shape {tensor.shape} beside one of {truth.shape}"
        raise ValueError(msg)
    expected, units, pieces = truth.full(ALONE), _units(noise), dict[int, Array]()
    for rank, count in tensor.pieces.items():
        own = local_slices(tensor.shape, tensor.placements, case.layout.mesh, rank)
        pieces[rank] = _of_counts(count, expected[own], units[own])
    return replace(tensor, pieces=pieces)


def _same_zeros(run: Trace, restored: Trace) -> bool:
    """Whether zeros and their signs are where they were."""
    return all(
        np.array_equal(piece == 0, made[key].pieces[rank] == 0)
        and np.array_equal(np.signbit(piece[piece == 0]), np.signbit(made[key].pieces[rank][piece == 0]))
        for step, made in zip(run.steps, restored.steps, strict=True)
        for key, tensor in step.items()
        for rank, piece in tensor.pieces.items()
    )


def _distinct(runs: Iterable[Trace]) -> int:
    """How many pieces have bits of their own: runs and ranks that differ slightly must still differ."""
    return len(
        {
            (index, key, piece.shape, piece.tobytes())
            for run in runs
            for index, step in enumerate(run.steps)
            for key, tensor in step.items()
            for piece in tensor.pieces.values()
        }
    )
