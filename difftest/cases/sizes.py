"""The sizes that layers are drawn with; `unit` is what a size should usually be a multiple of.

It is the size of the axis that will cut it. Other sizes still occur, so that uneven shards do. A size that is
there several times is drawn so much more often.
"""

MOST_WIDTH = 32
WIDTHS = (8, 2, 3, 4, 5, 6, 7, 12, 16, 24, 32)


def widths(unit: int = 1) -> tuple[int, ...]:
    """Widths up to `MOST_WIDTH`, usually multiples of `unit`, odd ones too."""
    return multiples(tuple(sorted({unit, 2 * unit, 4 * unit, *WIDTHS} & set(range(2, MOST_WIDTH + 1)))), unit)


def vocabularies(unit: int = 1) -> tuple[int, ...]:
    """Vocabularies from 8 to 48."""
    return multiples((16, 8, 11, 13, 24, 30, 32, 48), unit)


def multiples(sizes: tuple[int, ...], unit: int) -> tuple[int, ...]:
    """All `sizes`; a multiple of `unit` three times."""
    return tuple(size for size in sizes for _ in range(1 if size % unit else 3))
