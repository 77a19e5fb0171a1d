"""Choices with whole-number weights, from which every distribution in this package is made.

Equal choices are one strategy: Hypothesis checks and labels each strategy that it meets for the first time,
which costs more than drawing from it.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

MOST_REMEMBERED = 4096


def weighted(*choices: tuple[int, T]) -> SearchStrategy[T]:
    """One of the values, weighted by the number before it; shrinks towards the first."""
    try:
        return _weighted(choices, tuple(type(value) for _, value in choices))
    except TypeError:  # a value is not hashable
        return _weighted.__wrapped__(choices, ())


@functools.lru_cache(MOST_REMEMBERED)
def _weighted(choices: tuple[tuple[int, Any], ...], _types: tuple[type, ...]) -> SearchStrategy[Any]:
    """As `weighted`; the types keep apart what is equal but not the same, as True and 1."""
    return st.sampled_from([value for weight, value in choices for _ in range(weight)])


def equally(*values: T) -> SearchStrategy[T]:
    """One of the values; shrinks towards the first."""
    return weighted(*((1, value) for value in values))


def always(value: T) -> SearchStrategy[T]:
    """The value."""
    return weighted((1, value))


@functools.lru_cache(MOST_REMEMBERED)
def mixed(*kinds: tuple[int, SearchStrategy[T]]) -> SearchStrategy[T]:
    """A value of one of the strategies, weighted by the number before it."""
    return weighted(*kinds).flatmap(lambda kind: kind)


def drawn_from(choices: Mapping[str, Sequence[T]]) -> SearchStrategy[dict[str, T]]:
    """For each name one of its values; one that is there twice is drawn twice as often."""
    return st.fixed_dictionaries({name: _one_of(values) for name, values in choices.items()})


def _one_of(values: Sequence[Any]) -> SearchStrategy[Any]:
    match values:
        case range():
            return st.integers(values.start, values.stop - 1)
        case (False, True):
            return st.booleans()
    return equally(*values)


@functools.cache
def sometimes(*, one_in: int) -> SearchStrategy[bool]:
    """True in one of `one_in` draws on average; shrinks towards False."""
    return weighted((one_in - 1, False), (1, True))
