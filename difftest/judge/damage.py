"""What a mismatch looks like, in a few words without numbers: part of its identity, and the first thing that its reader sees.

Two faults on one path that both spoil the gradients are told apart where their damage is: a sum that should be a mean is off by a constant,
a lost minus by its sign. Words are few, and none is said unless every element fits it, so that one fault keeps one word from case to case.
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
LONELY = "wrong on one rank alone"

COARSEST, FINEST = 2.0**-6, 2.0**-11
"""Between these shares of the greatest value lies the greatest error of what was kept in bfloat16 on its way."""

PERMUTED = 0.1
"""Sorted values that are nearer than this share of the unsorted ones' distance are the same values in other places."""

DISPLACED = 2.0
"""Times as far as its update a parameter's values are where they are in other places."""

SEQUENCES = 3
"""The dims of a sequence's tensor."""

NEARLY_ALL = 0.95
CLOSE = 1e-3
"""How near a ratio must be to a whole number of ranks."""


def nature(truth: Floats, floors: Floats, actual: Sharded, mesh: Mesh, *, output: bool) -> str:
    """The word for what became of `truth`, whose rounding is within `floors`; empty where none fits.

    `actual` has no `misfits`. An `output` is asked where it is right and how coarse, a gradient or a parameter what the truth was
    multiplied by: what spoils an output mixes with what follows, and a parameter's pieces are no part of the batch.
    """
    value = actual.full(mesh)
    if not np.isfinite(value).all():
        return ""
    if not output:
        return _multiple(truth, floors, value, mesh) if value.any() else ZERO
    right = _within(truth, floors, value)
    return _alone(right, actual, mesh) or _unmasked(right) or _coarse(truth, value, right)


def moved(initial: Floats, truth: Floats, updated: Floats) -> bool:
    """Whether a parameter was laid down with elements in each other's places, seen after its first update, which should be `truth`.

    Its sorted values are still near the initial ones and the values are not, by more than an update moves them: among many values, moves
    of any kind leave the sorted ones nearly where they were.
    """
    distance = np.abs(updated - initial).max(initial=0.0)
    sorts = np.abs(np.sort(updated, None) - np.sort(initial, None)).max(initial=0.0)
    return bool(
        sorts < PERMUTED * distance and distance > DISPLACED * np.abs(truth - initial).max(initial=0.0)
    )


def wrong_ranks(truth: Floats, floors: Floats, actual: Sharded, mesh: Mesh) -> set[int]:
    """The ranks whose own piece of a tensor without `misfits` is not `truth`'s."""
    places = {rank: local_slices(actual.shape, actual.placements, mesh, rank) for rank in actual.pieces}
    return {
        rank
        for rank, at in places.items()
        if not _within(truth[at], floors[at], np.asarray(actual.pieces[rank], np.float64)).all()
    }


def _multiple(truth: Floats, floors: Floats, value: Floats, mesh: Mesh) -> str:
    """Whether the value is the truth times a constant, and which; of one number alone nothing can be said."""
    if np.count_nonzero(truth) < 2 or np.count_nonzero(value) < 2:  # noqa: PLR2004
        return ""
    ratio = float((truth * value).sum() / (truth * truth).sum())
    if not _within(ratio * truth, max(1.0, abs(ratio)) * floors, value).all():
        return ""
    if _within(-truth, floors, value).all():
        return NEGATED
    return COUNTED if any(math.isclose(ratio, n, rel_tol=CLOSE) for n in _counts(mesh)) else SCALED


def _counts(mesh: Mesh) -> set[float]:
    """The ranks of some of the mesh's axes, and one over them."""
    sizes = [size for size in mesh.shape if size > 1]
    some = {
        math.prod(chosen) for n in range(1, len(sizes) + 1) for chosen in itertools.combinations(sizes, n)
    }
    return {float(count) for count in some} | {1.0 / count for count in some}


def _alone(right: Bools, actual: Sharded, mesh: Mesh) -> str:
    """Whether the first rank's piece is right, and no other's is."""
    places = [
        local_slices(actual.shape, actual.placements, mesh, ranks[0])
        for ranks in replica_groups(actual.placements, mesh)
    ]
    whole = [bool(right[place].all()) for place in places if right[place].size]
    return ALONE if len(whole) > 1 and whole[0] and not any(whole[1:]) else ""


def _unmasked(right: Bools) -> str:
    """Whether of a sequence (batch x positions x features) the last position alone is right: no causal mask hides anything from it."""
    if right.ndim != SEQUENCES or right.shape[1] < 2:  # noqa: PLR2004
        return ""
    positions = np.asarray(right.all(axis=(0, 2)))
    return UNMASKED if positions[-1] and not positions[:-1].any() else ""


def _coarse(truth: Floats, value: Floats, right: Bools) -> str:
    """Whether nearly every element is off by what bfloat16 rounds."""
    error = np.abs(value - truth)
    share = error.max() / max(np.abs(truth).max(), np.finfo(np.float64).tiny)
    return COARSE if FINEST <= share <= COARSEST and 1.0 - right.mean() >= NEARLY_ALL else ""


def _within(truth: Floats, floors: Floats, value: Floats) -> Bools:
    return np.asarray(np.abs(value - truth) <= THRESHOLD * floors)
