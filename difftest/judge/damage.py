"""What a mismatch looks like, in a few words without numbers: its nature, which is part of its identity.

Two faults on one path that both spoil the gradients are distinguished by their damage: a sum that should be a
mean is off by a constant, a lost minus by its sign. There are few words, and a word is used only where every
element fits it, so that one fault keeps one word from case to case.
"""

import itertools
import math

import numpy as np
import numpy.typing as npt

from difftest.cases.layout import Mesh, local_slices, replica_groups
from difftest.judge.noise import THRESHOLD
from difftest.judge.outcome import Sharded

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

ZERO = "zero"
NEGATED = "negated"
COUNTED = "times a number of ranks"
SCALED = "times a constant"
COARSE = "rounded coarsely"
ALONE = "right on the first rank alone"
UNMASKED = "right at the last position alone"
MOVED = "a parameter's elements changed places"
NOT_UPDATED = "not updated"
LONELY = "wrong on one rank alone"
WORDS = (ZERO, NEGATED, COUNTED, SCALED, COARSE, ALONE, UNMASKED, MOVED, NOT_UPDATED, LONELY)
"""All words for damage to the tensors of training."""

COARSEST, FINEST = 2.0**-6, 2.0**-11
"""The greatest error of a tensor that was kept in bfloat16 on its way lies between these shares of its
greatest value.
"""

PERMUTED = 0.1
"""Values are the same in other places if their sorted distance is less than this share of their distance."""

DISPLACED = 2.0
"""A parameter counts as moved when it is off by more than this many times its correct update."""

SEQUENCES = 3
"""How many dims a tensor of sequences has."""

NEARLY_ALL = 0.95
"""The share of wrong elements from which a tensor counts as wrong nearly everywhere."""

MOST_OF = 0.5
"""The least share of wrong numbers in a tensor that counts as multiplied, of those that are not 0."""

CLOSE = 1e-3
"""The relative distance at which a ratio counts as a whole number of ranks."""

DEVIATIONS, MOST_UNSURE = 4.0, 0.05
"""A ratio of coarse numbers counts so at this many of its standard deviations too, up to this distance."""


def nature(truth: Floats, floors: Floats, actual: Sharded, mesh: Mesh, *, output: bool) -> str:
    """The word for the damage to a tensor: the oracle has `truth`, the candidate `actual`; or empty.

    `truth` and `floors`, its rounding noise, are whole tensors of one shape, `actual` one of that shape
    without `misfits`. For an `output` the word says where it is right and how coarse it is; for a gradient or
    a parameter, by what the truth was multiplied. The errors of an output mix with those of the layers that
    follow, and a parameter's pieces do not correspond to parts of the batch.
    """
    value = actual.full(mesh)
    if not np.isfinite(value).all():
        return ""
    if not output:
        return _multiple(truth, floors, value, mesh) if value.any() else ZERO
    right = _within(truth, floors, value)
    if right.all() and _only_first_copy(truth, floors, actual, mesh):
        return ALONE
    return _alone(right, actual, mesh) or _unmasked(right) or _coarse(truth, value, right)


def of_program(truth: Floats, floors: Floats, actual: Sharded, mesh: Mesh) -> str:
    """As `nature`, for a tensor of a program: what it was multiplied by, where it is right, how coarse it is.

    Only elements that the oracle decides and that are finite count.
    """
    value = actual.full(mesh)
    compared = np.isfinite(truth) & np.isfinite(value) & np.isfinite(floors)
    truth, floors, value = (np.where(compared, one, 0.0) for one in (truth, floors, value))
    with np.errstate(all="ignore"):  # values may be as large or small as float64 allows
        right = _within(truth, floors, value)
        if right.all():
            return ""
        if not value.any():
            return ZERO
        coarse = "" if actual.is_discrete else _coarse(truth, value, right)
        return _multiple(truth, floors, value, mesh) or _alone(right, actual, mesh) or coarse


def moved(initial: Floats, truth: Floats, updated: Floats) -> bool:
    """Whether a parameter was placed with permuted elements; `truth` is its correct first update.

    Then its sorted values are near the sorted initial ones, while the values are off by more than an update
    moves them. Among many values, an update of any kind leaves the sorted ones nearly where they were.
    """
    distance = np.abs(updated - initial).max(initial=0.0)
    sorts = np.abs(np.sort(updated, None) - np.sort(initial, None)).max(initial=0.0)
    return bool(
        sorts < PERMUTED * distance and distance > DISPLACED * np.abs(truth - initial).max(initial=0.0)
    )


def not_updated(before: Floats, truth: Floats, floors: Floats, updated: Floats) -> bool:
    """Whether a parameter is wrong only where it has its value from `before` the update still.

    A missing update may be within rounding of the correct one in most elements.
    """
    wrong = ~_within(truth, floors, updated)
    return bool(wrong.any() and np.array_equal(updated[wrong], before[wrong]))


def wrong_ranks(truth: Floats, floors: Floats, actual: Sharded, mesh: Mesh) -> set[int]:
    """The ranks whose piece of a tensor without `misfits` differs from `truth` by more than rounding."""
    places = {rank: local_slices(actual.shape, actual.placements, mesh, rank) for rank in actual.pieces}
    return {
        rank
        for rank, at in places.items()
        if not _within(truth[at], floors[at], np.asarray(actual.pieces[rank], np.float64)).all()
    }


def _multiple(truth: Floats, floors: Floats, value: Floats, mesh: Mesh) -> str:
    """The word for a value that is the truth times a constant; empty where few of its numbers are wrong.

    A constant near 1 fits a tensor of which one element alone is wrong: rounding hides it from the others.
    """
    counts = truth != 0.0
    wrong = np.count_nonzero(counts & ~_within(truth, floors, value))
    if wrong < 2 or wrong < MOST_OF * np.count_nonzero(counts) or np.count_nonzero(value) < 2:  # noqa: PLR2004
        return ""
    squares = (truth * truth).sum()
    ratio = float((truth * value).sum() / squares)
    if not _within(ratio * truth, max(1.0, abs(ratio)) * floors, value).all():
        return ""
    if _within(-truth, floors, value).all():
        return NEGATED
    deviation = np.linalg.norm(truth * floors) / squares  # of the ratio of a right run to the truth, 1
    close = max(CLOSE, min(DEVIATIONS * float(deviation), MOST_UNSURE))
    return COUNTED if any(math.isclose(ratio, n, rel_tol=close) for n in _counts(mesh)) else SCALED


def _counts(mesh: Mesh) -> set[float]:
    """The number of ranks of every choice of the mesh's axes, and the inverses of these numbers."""
    sizes = [size for size in mesh.shape if size > 1]
    some = {
        math.prod(chosen) for n in range(1, len(sizes) + 1) for chosen in itertools.combinations(sizes, n)
    }
    return {float(count) for count in some} | {1.0 / count for count in some}


def _alone(right: Bools, actual: Sharded, mesh: Mesh) -> str:
    """The word for a tensor of which only the first rank's piece is right."""
    places = [
        local_slices(actual.shape, actual.placements, mesh, ranks[0])
        for ranks in replica_groups(actual.placements, mesh)
    ]
    whole = [bool(right[place].all()) for place in places if right[place].size]
    return ALONE if len(whole) > 1 and whole[0] and not any(whole[1:]) else ""


def _only_first_copy(truth: Floats, floors: Floats, actual: Sharded, mesh: Mesh) -> bool:
    """Whether every rank holds the whole tensor, and all but the first hold a wrong one."""
    copies = len(list(replica_groups(actual.placements, mesh))) == 1 < len(actual.pieces)
    return copies and wrong_ranks(truth, floors, actual, mesh) == {*actual.pieces} - {0}


def _unmasked(right: Bools) -> str:
    """The word for a tensor (batch x positions x features) that is right at the last position alone.

    A causal mask hides nothing from the last position, so a lost mask leaves it right.
    """
    if right.ndim != SEQUENCES or right.shape[1] < 2:  # noqa: PLR2004
        return ""
    positions = np.asarray(right.all(axis=(0, 2)))
    return UNMASKED if positions[-1] and not positions[:-1].any() else ""


def _coarse(truth: Floats, value: Floats, right: Bools) -> str:
    """The word for a tensor of which nearly every element is off by as much as bfloat16 rounds."""
    error = np.abs(value - truth)
    share = error.max() / max(np.abs(truth).max(), np.finfo(np.float64).tiny)
    return COARSE if FINEST <= share <= COARSEST and 1.0 - right.mean() >= NEARLY_ALL else ""


def _within(truth: Floats, floors: Floats, value: Floats) -> Bools:
    return np.asarray(np.abs(value - truth) <= THRESHOLD * floors)
