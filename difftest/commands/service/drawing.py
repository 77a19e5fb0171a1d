"""Which case a number stands for, in every command that takes a seed."""

from collections.abc import Iterator
from dataclasses import dataclass

from difftest.campaign.groups import MOST_CASES
from difftest.cases.case import Case
from difftest.cases.described import Description
from difftest.findings.known_cases import known_cases

PROGRAMS = MOST_CASES
"""How many programs of operators come before every 20 other cases, unless a command says otherwise."""

FIRST_KNOWN = 1_000_000_000_000
"""The number of the first case of a known fault: more than that of any generated case and its inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """What decides the cases: generated ones, or those of a module of the user's if `model` describes one.

    Empty `paths` mean all. A case that runs alone has so many `inputs`, its own among them, and so many
    `programs` come before every 20 others. With `known_cases`, those of known faults come first.
    """

    seed: int
    model: Description | None
    paths: tuple[str, ...]
    max_world_size: int
    inputs: int = 1
    programs: int = PROGRAMS
    known_cases: bool = False

    def chosen_paths(self) -> tuple[str, ...]:
        """The paths of the cases, sorted; `UsageError` for one that cannot have them."""
        from generators import own, paths

        wanted = self.paths or None
        return own.chosen(self.model, wanted) if self.model else paths.chosen(wanted)

    def numbers(self, most: int | None) -> Iterator[int]:
        """The numbers of a campaign of `most` cases, in the order in which they run; None for no end."""
        from generators import own
        from generators.sequence import numbers

        paths = own.paths() if self.model else self.chosen_paths()
        return numbers(paths, most, self.inputs, self.programs)

    def known(self) -> Iterator[int]:
        """The numbers of the cases of known faults, which come first: on the chosen paths, not too large."""
        paths = self.chosen_paths() if self.known_cases else ()
        for number, case in enumerate(known_cases(), FIRST_KNOWN):
            if case.path in paths and case.world_size <= self.max_world_size:
                yield number

    def case(self, number: int) -> Case:
        """The case of this number."""
        from generators import cases, own

        if number >= FIRST_KNOWN:
            return known_cases()[number - FIRST_KNOWN]
        paths, most_ranks = self.paths or None, self.max_world_size
        if self.model:
            return own.case_at(self.model, self.seed, number, wanted=paths, max_world_size=most_ranks)
        return cases.case_at(self.seed, number, paths=paths, max_world_size=most_ranks)
