"""Choices with whole-number weights, from which every distribution in this package is made."""

from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


def weighted(*choices: tuple[int, T]) -> SearchStrategy[T]:
    """One of the values, weighted by the number before it; shrinks towards the first."""
    return st.sampled_from([value for weight, value in choices for _ in range(weight)])


def mixed(*kinds: tuple[int, SearchStrategy[T]]) -> SearchStrategy[T]:
    """A value of one of the strategies, weighted by the number before it."""
    return weighted(*kinds).flatmap(lambda kind: kind)


def sometimes(*, one_in: int) -> SearchStrategy[bool]:
    """True in one of `one_in` draws on average; shrinks towards False."""
    return weighted((one_in - 1, False), (1, True))
