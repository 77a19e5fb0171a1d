"""Which samples of torch's databases the tables take: those that differ most from the ones before them."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from generators.operators.table import Sample

FEWEST_SAMPLES = 6
"""So many are taken even if the later ones have nothing new but their sizes."""

MOST_SAMPLES = 12
MOST_TRIED = 30
FEW_ELEMENTS = 300
"""Larger operands are stored only where an operator has no smaller sample."""

Encoded: TypeAlias = tuple[Sample, dict[str, Any]]
"""A sample, and the tensors of its operands."""


class UnfitError(Exception):
    """A sample that the table cannot have; the text says why."""


def chosen(
    encoded: Sequence[Encoded],
    validated: Callable[[Encoded], Sample],
    reasons: list[Exception],
    most: int = MOST_SAMPLES,
) -> list[Sample]:
    """At most so many samples that are valid, each as stored.

    The first is the first of the database that is small and has elements, a usual call. Each of the others
    has most values of arguments and kinds of operands that the earlier ones lack; among equals, most pairs
    of them. `validated` gives what to store; why a sample cannot be stored, its
    `UnfitError`, is added to `reasons`.
    """
    left = sorted(encoded, key=lambda one: (_is_large(one[0]), _is_degenerate(one[0])))
    seen: set[object] = set()
    taken: list[Sample] = []
    for _ in range(MOST_TRIED):
        if not left or len(taken) == most:
            break
        best = max(range(len(left)), key=lambda place: _news(left[place][0], seen)) if taken else 0
        small, *news = _news(left[best][0], seen)
        if len(taken) >= FEWEST_SAMPLES and not (small and any(news)):
            break
        sample = left.pop(best)
        try:
            stored = validated(sample)
        except UnfitError as error:
            reasons.append(error)
            continue
        if stored not in taken:
            taken.append(stored)
            seen |= _traits(sample[0]) | _pairs(sample[0])
    return taken


def _news(sample: Sample, seen: set[object]) -> tuple[bool, int, int]:
    """Whether it is small; how many traits, and how many pairs of traits, are new."""
    return not _is_large(sample), len(_traits(sample) - seen), len(_pairs(sample) - seen)


def _traits(sample: Sample) -> set[object]:
    """What makes samples different in kind: values of arguments; operands' dims, emptiness and memory.

    And whether some dim is odd, which two ranks cannot share evenly.
    """
    made = sample.made
    positions = [*enumerate(sample.arguments), *enumerate(made.arguments if made else (), start=100)]
    options = [*sample.options.items(), *(made.options.items() if made else ())]
    return {
        *((name, len(one.shape), 0 in one.shape) for name, one in sample.operands.items()),
        *((name, any(size % 2 for size in one.shape)) for name, one in sample.operands.items()),
        *((name, one.memory) for name, one in sample.operands.items()),
        *((key, str(value)) for key, value in (*positions, *options)),
    }


def _pairs(sample: Sample) -> set[object]:
    return {frozenset(pair) for pair in itertools.combinations(_traits(sample), 2)}


def _is_large(sample: Sample) -> bool:
    counts = [len(one.values or ()) or math.prod(one.shape) for one in sample.operands.values()]
    return max(counts) > FEW_ELEMENTS


def _is_degenerate(sample: Sample) -> bool:
    """Whether an operand has no elements, or none has more than one."""
    counts = [math.prod(one.shape) for one in sample.operands.values()]
    return min(counts) == 0 or max(counts) == 1
