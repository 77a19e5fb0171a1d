"""Which cases a campaign has, and in which order: its paths in turn, and others in blocks between them.

A case has a number (`difftest.cases.case_number`). Paths whose cases run one by one take turns. A path whose
cases share processes (`Path.IN_BLOCKS`) comes in blocks. Beside other paths its cases are a series of their
own, so that they change no number of the others.

The further inputs of a case (`generators.inputs`) come right after it.
"""

import itertools
from collections.abc import Iterator

from difftest.cases.case_number import CaseNumber, Series
from generators.paths import load

BLOCK = 20
"""How many cases a block has, and how many cases of other paths follow one or several blocks."""


def split(paths: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths whose cases run one by one, and those whose cases come in blocks."""
    in_blocks = tuple(name for name in paths if load(name).IN_BLOCKS)
    return tuple(name for name in paths if name not in in_blocks), in_blocks


def numbers(
    paths: tuple[str, ...], most: int | None = None, inputs: int = 1, programs: int = BLOCK
) -> Iterator[CaseNumber]:
    """The numbers of a campaign's cases in the order in which they run; without `most`, no end.

    Some paths come in blocks, as that of programs does; `most` counts the cases of the others, if there are
    any. `programs` cases of the paths in blocks come before every `BLOCK` of the others. If the paths in
    blocks run only where they are named, a last block of fewer others follows at most as many. A case that
    runs alone has `inputs` inputs, its own among them.
    """
    alone, in_blocks = split(paths)
    mixed, named = bool(alone and in_blocks), not any(load(name).DEFAULT for name in in_blocks)
    starts = itertools.count(0, BLOCK) if most is None else range(0, most, BLOCK)
    for start in starts:
        end = start + BLOCK if most is None else min(start + BLOCK, most)
        if mixed and (named or end - start == BLOCK):
            first = start // BLOCK * programs
            count = programs if end - start == BLOCK else min(programs, end - start)
            yield from (CaseNumber(index, Series.PROGRAM) for index in range(first, first + count))
        for index in range(start, end):
            yield from (CaseNumber(index, input=further) for further in range(inputs if alone else 1))


def taking_turns(series: Series, paths: tuple[str, ...]) -> tuple[str, ...]:
    """The paths among `paths` whose cases take turns in a series; all where they are of one kind."""
    alone, in_blocks = split(paths)
    if not (alone and in_blocks):
        return paths
    return in_blocks if series == Series.PROGRAM else alone
