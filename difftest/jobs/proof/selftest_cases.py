"""The cases of a self-test: those of a seed, by number, on some paths."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layers import walk

if TYPE_CHECKING:
    from workers.faults import PlantedFault

MOST_PROGRAMS = 20_000
"""Few programs can show a given fault of operators, and drawing them takes no time."""

SORTED = 4
"""How many cases are drawn before the one with the least work is run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCases:
    """The cases of `seed` that have at most `max_world_size` ranks.

    `paths` and the number of `inputs` of a case are those of the null campaign.
    """

    seed: int
    paths: tuple[str, ...]
    max_world_size: int
    inputs: int = 1

    def numbered(self, count: int, after: int = 0) -> Iterator[tuple[int, Case]]:
        """The null campaign's cases with their recorded numbers, with programs if there are paths.

        The first `after` of them are left out.
        """
        from generators.cases import case_at
        from generators.paths import chosen
        from generators.sequence import numbers, split

        names = chosen(self.paths) if self.paths else split(chosen(None))[0]
        draw = partial(case_at, self.seed, paths=names, max_world_size=self.max_world_size)
        left = itertools.islice(numbers(names, count, self.inputs), after, None)
        return ((number.recorded, draw(number)) for number in left)

    def cases(self, count: int, paths: tuple[str, ...] = ()) -> Iterator[Case]:
        """The first cases on `paths`, by default on the usual ones."""
        from generators.cases import case_at

        draw = partial(case_at, self.seed, paths=paths or None, max_world_size=self.max_world_size)
        return map(draw, range(count))

    def showing(self, count: int, fault: "PlantedFault") -> Iterator[Case]:
        """The first cases on the usual paths, or those on the fault's own that can show it.

        A fault of torch itself can show in the first of them, of which the least come first: each run of one
        is many runs of the oracle.
        """
        if not fault.paths:
            return self.cases(count)
        drawn = self.cases(MOST_PROGRAMS, (fault.twins_of,) if fault.twins_of else fault.paths)
        reaching = itertools.islice(filter(fault.reaches, drawn), count)
        if not fault.in_torch:
            return reaching
        least = sorted(itertools.islice(reaching, SORTED), key=_work)
        return itertools.chain(least, reaching)


def _work(case: Case) -> int:
    """What a run of a case takes, about: its passes through layers."""
    passes = case.training.steps * case.training.accumulation
    return passes * sum(layer.complexity for _, layer in walk(case.model.layers))
