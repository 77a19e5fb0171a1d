"""A simpler case and what it lacks, and the ways in which simplifications offer several of them."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from difftest.cases.case import Case

T = TypeVar("T")

Candidate: TypeAlias = tuple[str, Case]
"""What the case has and the simpler one lacks, in words ("accumulation 2"), and the simpler case.

The words are empty if several things are removed at once: each of them is offered by itself too.
"""

Simplification: TypeAlias = Callable[[Case], Iterator[Candidate]]
"""Simpler cases, the simplest first.

It yields none if the case has nothing of the kind that it removes, so that repeating it ends.
"""

MANY = 4
"""With at least this many parts, a run that removes several at once is worth its cost."""


def tried(words: str, make: Callable[[], Case]) -> Iterator[Candidate]:
    """The result of `make`, unless it is no valid case."""
    try:
        case = make()
    except ValueError:
        return
    yield words, case


def by_parts(parts: Sequence[tuple[str, T]], without: Callable[[Sequence[T]], Case]) -> Iterator[Candidate]:
    """The case without some of its `parts`, which are given with their words.

    If there are many: without halves, quarters and so on of them; then without each.
    """
    size = math.ceil(len(parts) / 2)
    while size > 1 and len(parts) >= MANY:
        for start in range(0, len(parts), size):
            some = [part for _, part in parts[start : start + size]]
            yield from tried("", lambda some=some: without(some))  # type: ignore[misc]
        size = math.ceil(size / 2)
    for words, part in parts:
        yield from tried(words, lambda part=part: without([part]))  # type: ignore[misc]


def smaller(words: str, value: int, few: Sequence[int], make: Callable[[int], Case]) -> Iterator[Candidate]:
    """The case with a size reduced from `value` to each of `few`, or half way to the first of them.

    Sizes up to the first of `few` are small enough.
    """
    if value > few[0]:
        for size in dict.fromkeys((*few, (few[0] + value) // 2)):
            if size < value:
                yield from tried(words, lambda size=size: make(size))  # type: ignore[misc]
