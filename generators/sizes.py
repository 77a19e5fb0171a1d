"""The sizes that layers are drawn with: widths, vocabularies, sequence lengths, and what divides them.

`unit` is what a size should usually be a multiple of (the size of the axis that will cut it); other sizes
still occur, so that uneven shards do.
"""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases import sizes
from generators.chances import equally

MOST_HEADS = 8


@functools.cache
def widths(*, unit: int = 1) -> SearchStrategy[int]:
    """Those of `difftest.cases.sizes`."""
    return equally(*sizes.widths(unit))


@functools.cache
def sequences() -> SearchStrategy[int]:
    """Sequence lengths."""
    return st.sampled_from((8, 4, 5, 6, 7, 12, 16))


@functools.cache
def vocabularies(*, unit: int = 1) -> SearchStrategy[int]:
    """Those of `difftest.cases.sizes`."""
    return equally(*sizes.vocabularies(unit))


@functools.cache
def multiples(of: tuple[int, ...], unit: int) -> SearchStrategy[int]:
    """One of some sizes, a multiple of `unit` three times as often as any other."""
    return equally(*sizes.multiples(of, unit))


def divisors(number: int) -> tuple[int, ...]:
    """The numbers up to `MOST_HEADS` that divide `number`."""
    return tuple(part for part in range(1, min(number, MOST_HEADS) + 1) if number % part == 0)
