"""Smaller bundles: of the tensors in which all runs agree with the oracle, what the agreement rests on.

Such a tensor keeps few digits of the oracle and of its noise, and of every other run its difference from the
oracle, in eighths of the noise of each element: that is what the checks measure. A tensor that is off in any
run keeps the oracle's digits, and that run's. What would be kept is judged beforehand, beside the runs
themselves: a case of which anything would be judged otherwise stays as it was recorded, to the last bit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from difftest.cases.case import Case
from difftest.cases.layout import ALONE, local_slices
from difftest.ground.errors import UsageError
from difftest.judge.comparator import Comparison, compare
from difftest.judge.outcome import Array, Sharded, Tensors, Trace
from difftest.judge.stage import Stage

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

MOST = 12 * UNITS_OF_NOISE
"""The greatest number of units. What is farther off stays exact; 10 times the noise is reported."""

Floats = npt.NDArray[np.float64]
Where: TypeAlias = tuple[int, tuple[Stage, str]]
"""A tensor of a run: its step, and its key there."""


def condensed(
    case: Case, truths: Sequence[Trace], runs: Mapping[int, tuple[str, str, Trace]]
) -> tuple[list[Trace], dict[int, Trace]] | None:
    """The oracle's traces and the others', by number, as they are kept; None where they must stay whole.

    `truths` are the oracle's runs with different samples of the noise: runs count in the noise of the first,
    and are judged beside each. `runs` has the backend, the side and the trace of every other run.
    """
    values, *others = map(_values, truths)
    unequal = any(other != values for other in others)
    if unequal or any(len(run.steps) != len(truths[0].steps) for _, _, run in runs.values()):
        return None
    counts = {number: _counts_of(case, truths[0], run) for number, (_, _, run) in runs.items()}
    apart = (where for counted in counts.values() for where, count in counted.items() if count is None)
    exact = frozenset[Where]((*_not_finite(truths[0]), *apart))
    rough = [_rough(truth, exact) for truth in truths]
    kept = dict[int, Trace]()
    for number, (backend, side, run) in runs.items():
        difference = _difference(run, counts[number])
        restored = restore(case, rough[0], rough[0], difference)
        alike = (
            _judged(compare(case, backend, side, truth, run))
            == _judged(compare(case, backend, side, short, restored))
            for truth, short in zip(truths, rough, strict=True)
        )
        if not all(alike) or not _same_zeros(run, restored):
            return None
        kept[number] = difference
    backends = [backend for backend, _, _ in runs.values()]
    whole = [run for _, _, run in runs.values()]
    return (rough, kept) if _distinct(backends, whole) == _distinct(backends, kept.values()) else None


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


def joined(truths: Sequence[Trace]) -> Trace:
    """One oracle's run of several bundles: of every tensor, the copy with the most digits.

    `UsageError` where they are not of one run.
    """
    best = truths[0]
    for truth in truths[1:]:
        try:
            best = _more_digits(best, truth)
        except (ValueError, KeyError) as error:
            msg = f"two bundles have different runs of the oracle: {error}"
            raise UsageError(msg) from error
    return best


def _more_digits(one: Trace, other: Trace) -> Trace:
    steps, noise = list[Tensors](), list[Tensors]()
    for step, noises, theirs, their_noise in zip(one.steps, one.noise, other.steps, other.noise, strict=True):
        better = {key for key, tensor in step.items() if _is_short(tensor) and not _is_short(theirs[key])}
        steps.append({key: theirs[key] if key in better else tensor for key, tensor in step.items()})
        noise.append({key: their_noise[key] if key in better else tensor for key, tensor in noises.items()})
    return replace(one, steps=tuple(steps), noise=tuple(noise))


def _is_short(tensor: Sharded) -> bool:
    return _applies(tensor) and all(
        np.array_equal(shortened(piece), piece.astype(np.float64)) for piece in tensor.pieces.values()
    )


def _judged(comparison: Comparison) -> Comparison:
    """What has to stay: all but the measured errors, which are a fraction of the noise off."""
    return replace(comparison, measurements=(), canary="")


def _applies(tensor: Sharded) -> bool:
    return not tensor.is_discrete and int(np.prod(tensor.shape)) >= FEWEST_ELEMENTS


def _values(truth: Trace) -> list[tuple[Where, bytes]]:
    return [
        ((index, key), b"".join(piece.tobytes() for piece in tensor.pieces.values()))
        for index, step in enumerate(truth.steps)
        for key, tensor in step.items()
    ]


def _not_finite(truth: Trace) -> Iterator[Where]:
    for index, (step, noises) in enumerate(zip(truth.steps, truth.noise, strict=True)):
        for key, tensor in step.items():
            if not (np.isfinite(tensor.full(ALONE)).all() and np.isfinite(noises[key].full(ALONE)).all()):
                yield index, key


def _rough(truth: Trace, exact: frozenset[Where]) -> Trace:
    """The oracle's run with few digits of all tensors but the `exact` ones."""

    def short(index: int, tensors: Tensors) -> Tensors:
        step = truth.steps[index]
        return {
            key: _short(tensor)
            if (index, key) not in exact and key in step and _applies(step[key])
            else tensor
            for key, tensor in tensors.items()
        }

    steps, noise = (
        tuple(short(index, tensors) for index, tensors in enumerate(side))
        for side in (truth.steps, truth.noise)
    )
    return replace(truth, steps=steps, noise=noise)


def _short(tensor: Sharded) -> Sharded:
    """The tensor with few digits, in float32 where that holds them."""
    pieces = {rank: shortened(piece) for rank, piece in tensor.pieces.items()}
    with np.errstate(over="ignore"):
        single = {rank: piece.astype(np.float32) for rank, piece in pieces.items()}
    holds = all(np.array_equal(single[rank], piece) for rank, piece in pieces.items())
    return replace(tensor, pieces=single if holds else pieces)


def _units(noise: Sharded) -> Floats:
    """The unit of each element of a whole tensor: a power of two, or 0 where there is no noise.

    It is that of the shortened noise, whichever of the two is kept.
    """
    deviation = shortened(noise.full(ALONE))
    _, exponents = np.frexp(deviation)
    units: Floats = np.where(deviation > 0, np.ldexp(0.5 / UNITS_OF_NOISE, exponents), 0.0)
    return units


def _counts(case: Case, truth: Sharded, noise: Sharded, tensor: Sharded) -> dict[int, Array] | None:
    """A tensor's difference from the oracle, by rank; None where one of them is no number of units."""
    if tensor.shape != truth.shape or tensor.misfits(case.layout.mesh):
        return None
    if any(piece.dtype == COUNT for piece in tensor.pieces.values()):
        return None
    expected, units, counts = truth.full(ALONE), _units(noise), dict[int, Array]()
    for rank, piece in tensor.pieces.items():
        own = local_slices(tensor.shape, tensor.placements, case.layout.mesh, rank)
        count = _counted(piece.astype(np.float64), expected[own], units[own])
        if count is None:
            return None
        counts[rank] = count
    return counts


def _counts_of(case: Case, truth: Trace, run: Trace) -> dict[Where, dict[int, Array] | None]:
    """The differences of every tensor that can be kept so; None of one that is too far off."""
    return {
        (index, key): _counts(case, step[key], noises[key], tensor)
        for index, (tensors, step, noises) in enumerate(zip(run.steps, truth.steps, truth.noise, strict=True))
        for key, tensor in tensors.items()
        if key in step and _applies(step[key])
    }


def _difference(run: Trace, counts: Mapping[Where, Mapping[int, Array] | None]) -> Trace:
    """The run, with the counts of the tensors that have some in their place."""
    steps = (
        {
            key: replace(tensor, pieces=counted) if (counted := counts.get((index, key))) else tensor
            for key, tensor in tensors.items()
        }
        for index, tensors in enumerate(run.steps)
    )
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
    counted = {piece.dtype == COUNT for piece in tensor.pieces.values()} == {True}
    if truth is None or noise is None or not _applies(truth) or not counted:
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
        np.array_equal(piece == 0, restored_step[key].pieces[rank] == 0)
        and np.array_equal(
            np.signbit(piece[piece == 0]), np.signbit(restored_step[key].pieces[rank][piece == 0])
        )
        for step, restored_step in zip(run.steps, restored.steps, strict=True)
        for key, tensor in step.items()
        for rank, piece in tensor.pieces.items()
    )


def _distinct(backends: Iterable[str], runs: Iterable[Trace]) -> int:
    """How many pieces have bits of their own: a backend's runs and ranks that differ must still differ."""
    return len(
        {
            (backend, index, key, piece.shape, piece.tobytes())
            for backend, run in zip(backends, runs, strict=True)
            for index, step in enumerate(run.steps)
            for key, tensor in step.items()
            for piece in tensor.pieces.values()
        }
    )
