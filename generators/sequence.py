"""Which cases a campaign has, and in which order: its paths in turn, and others in blocks between them.

A case has a number. Paths whose cases run one by one take turns from number 0 on. A path whose cases share
processes (`Path.IN_BLOCKS`) comes in blocks. Beside other paths it has numbers of its own, from
`FIRST_IN_BLOCKS` on, so that its cases change no number of theirs; alone it has the numbers from 0.

The further inputs of a case (`generators.inputs`) come right after it, and each has the case's number and a
multiple of `FURTHER`.
"""

import itertools
from collections.abc import Iterator

from generators.paths import load

BLOCK = 20
"""How many cases a block has, and how many cases of other paths follow one or several blocks."""

FIRST_IN_BLOCKS = 1_000_000_000
"""More than a campaign has cases, and a multiple of the explorer's blocks."""

FURTHER = 10 * FIRST_IN_BLOCKS
"""More than any number of a case, and a multiple of `FIRST_IN_BLOCKS`."""


def split(paths: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths whose cases run one by one, and those whose cases come in blocks."""
    in_blocks = tuple(name for name in paths if load(name).IN_BLOCKS)
    return tuple(name for name in paths if name not in in_blocks), in_blocks


def numbers(
    paths: tuple[str, ...], most: int | None = None, inputs: int = 1, programs: int = BLOCK
) -> Iterator[int]:
    """The numbers of a campaign's cases in the order in which they run; without `most`, no end.

    Where some of `paths` come in blocks and others do not, `most` is the number of cases of the others. So
    many `programs`, which are cases of the former, come before every full `BLOCK` of them. If the paths that
    come in blocks run only where they are named, at most as many come before fewer. A case that runs alone
    has so many `inputs`, its own among them.
    """
    alone, in_blocks = split(paths)
    mixed, named = bool(alone and in_blocks), not any(load(name).DEFAULT for name in in_blocks)
    starts = itertools.count(0, BLOCK) if most is None else range(0, most, BLOCK)
    for start in starts:
        end = start + BLOCK if most is None else min(start + BLOCK, most)
        if mixed and (named or end - start == BLOCK):
            first = FIRST_IN_BLOCKS + start // BLOCK * programs
            count = programs if end - start == BLOCK else min(programs, end - start)
            yield from range(first, first + count)
        for number in range(start, end):
            yield from range(number, number + FURTHER * inputs, FURTHER) if alone else (number,)


def place_of(number: int, paths: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    """The paths that a case takes turns with, and its number in a campaign of these alone."""
    alone, in_blocks = split(paths)
    if not (alone and in_blocks):
        return paths, number
    return (in_blocks, number - FIRST_IN_BLOCKS) if is_in_block(number) else (alone, number)


def is_in_block(number: int) -> bool:
    """Whether a number is one of a block beside other paths."""
    return FIRST_IN_BLOCKS <= number < FURTHER
