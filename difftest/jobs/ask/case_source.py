"""Which cases a seed has, and the case of a number, in every command that takes a seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import click

from difftest.campaign.groups import MOST_CASES
from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber, Series
from difftest.cases.resets import plain
from difftest.cases.twins import twin
from difftest.findings.known_cases import known_cases
from difftest.jobs.ask.options import USUAL_PATHS, Model, option, paths_option

PROGRAMS = MOST_CASES
"""How many programs of operators come before every 20 other cases, unless a command says otherwise."""


Seed: TypeAlias = Annotated[
    int,
    option(
        type=click.IntRange(0, 2**63 - 1),
        default=0,
        help="Seed of the generated cases. The same seed and release of Hypothesis give the same cases.",
    ),
]
MaxWorldSize: TypeAlias = Annotated[
    int, option(type=int, default=8, help="The largest number of ranks of a case.")
]
Inputs: TypeAlias = Annotated[
    int,
    option(
        type=click.IntRange(1, MOST_CASES),
        help="Compile each case once, and compare it on this many inputs.",
    ),
]
Programs: TypeAlias = Annotated[
    int,
    option(
        type=click.IntRange(min=0),
        help="Run this many operator programs before every 20 cases; of the path modules, as many modules.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """What decides the cases: generated ones, or those of a module of the user's if `model` describes one.

    Empty `paths` mean all. `inputs` counts a case's own too. With `known_cases`, those of known faults come
    first; None if the command decides.
    """

    seed: Seed
    model: Model = None
    paths: Annotated[tuple[str, ...], paths_option(USUAL_PATHS)] = ()
    max_world_size: MaxWorldSize
    inputs: Inputs = 1
    programs: Programs = PROGRAMS
    known_cases: bool | None = False

    def chosen_paths(self) -> tuple[str, ...]:
        """The paths of the cases, sorted; `UsageError` for one that cannot have them."""
        from generators import own, paths

        wanted = self.paths or None
        return own.chosen(self.model, wanted) if self.model else paths.chosen(wanted)

    def numbers(self, most: int | None) -> Iterator[int]:
        """The recorded numbers of a campaign of `most` cases, in their order; None for no end."""
        from generators import own
        from generators.sequence import numbers

        paths = own.paths() if self.model else self.chosen_paths()
        return (number.recorded for number in numbers(paths, most, self.inputs, self.programs))

    def programs_beside(self, most: int | None) -> int:
        """How many operator programs a campaign of `most` cases has besides."""
        numbers = map(CaseNumber.of, self.numbers(most))
        return sum(number.series == Series.PROGRAM for number in numbers)

    def known(self) -> Iterator[int]:
        """Those of the cases of known faults, which come first: on the chosen paths, not too large."""
        paths = self.chosen_paths() if self.known_cases else ()
        for index, case in enumerate(known_cases()):
            if case.path in paths and case.world_size <= self.max_world_size:
                yield CaseNumber(index, Series.KNOWN).recorded

    def case(self, recorded: int) -> Case:
        """The case of a recorded number."""
        from generators import cases, own

        number = CaseNumber.of(recorded)
        if number.series == Series.KNOWN:
            return known_cases()[number.index]
        if number.series == Series.CONTROL:
            return plain(self.case(number.index))
        if number.series == Series.REFERENCE:
            return twin(self.case(number.index))
        paths, most_ranks = self.paths or None, self.max_world_size
        if self.model:
            return own.case_at(self.model, self.seed, number, wanted=paths, max_world_size=most_ranks)
        return cases.case_at(self.seed, number, paths=paths, max_world_size=most_ranks)
