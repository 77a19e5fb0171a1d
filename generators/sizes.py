"""The sizes that layers are drawn with: widths, vocabularies, sequence lengths, and what divides them.

`unit` is what a size should usually be a multiple of (the size of the axis that will cut it); other sizes
still occur, so that uneven shards do.
"""

import functools

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from generators.chances import weighted

MOST_WIDTH = 32
MOST_HEADS = 8
WIDTHS = (8, 2, 3, 4, 5, 6, 7, 12, 16, 24, 32)


@functools.cache
def widths(*, unit: int = 1) -> SearchStrategy[int]:
    """Widths up to `MOST_WIDTH`, usually multiples of `unit`, odd ones too."""
    return multiples(tuple(sorted({unit, 2 * unit, 4 * unit, *WIDTHS} & set(range(2, MOST_WIDTH + 1)))), unit)


@functools.cache
def sequences() -> SearchStrategy[int]:
    """Sequence lengths."""
    return st.sampled_from((8, 4, 5, 6, 7, 12, 16))


@functools.cache
def vocabularies(*, unit: int = 1) -> SearchStrategy[int]:
    """Vocabularies from 8 to 48."""
    return multiples((16, 8, 11, 13, 24, 30, 32, 48), unit)


@functools.cache
def multiples(sizes: tuple[int, ...], unit: int) -> SearchStrategy[int]:
    """One of `sizes`, a multiple of `unit` three times as often as any other."""
    return weighted(*((1 if size % unit else 3, size) for size in sizes))


def divisors(number: int) -> tuple[int, ...]:
    """The numbers up to `MOST_HEADS` that divide `number`."""
    return tuple(part for part in range(1, min(number, MOST_HEADS) + 1) if number % part == 0)
