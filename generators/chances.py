"""How often: choices with whole-number weights, on which every distribution in this package is written."""

from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


def weighted(*choices: tuple[int, T]) -> SearchStrategy[T]:
    """One of the values, each as often as the number before it says; shrinks towards the first."""
    return st.sampled_from([value for weight, value in choices for _ in range(weight)])


def mixed(*kinds: tuple[int, SearchStrategy[T]]) -> SearchStrategy[T]:
    """A value of one of the strategies, each as often as the number before it says."""
    return weighted(*kinds).flatmap(lambda kind: kind)


def sometimes(*, one_in: int) -> SearchStrategy[bool]:
    """True once in `one_in` draws; shrinks towards False."""
    return weighted((one_in - 1, False), (1, True))
