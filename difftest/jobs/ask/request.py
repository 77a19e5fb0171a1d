"""What a command was given, as typed data: the options that all commands with a campaign share.

The fields have the names of click's parameters, so that a command makes its request of them directly. A
command with other options has a request of its own in its file.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from difftest.cases.described import Description
from difftest.jobs.ask.case_source import PROGRAMS, Drawing
from difftest.records.completeness import LEAST_COMPARED, MOST_INCONCLUSIVE

CASES = 40
"""How many cases a campaign has when neither a number nor a budget is given."""

TWICE_EVERY = 8
"""How often a case is run twice: a second run shows nondeterminism, and costs as much as the first."""

FailOn: TypeAlias = Literal["new", "any", "infra", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A campaign with reports: where they go, which faults are known, and what makes the exit status 1 or 3.

    `fail_on` is what makes it 1. `least_compared` and `most_inconclusive` are shares of the comparisons
    of each side, backend and path; beyond them it is 3 (`difftest.records.completeness`). `out` is a folder
    or an address (`difftest.jobs.campaign.storage`). `formats` are written in addition to the usual ones.
    `seed` is None for runs that were not generated here. With `one_side`, runs of one side are enough.
    """

    out: Path | str
    ledger: Path
    fail_on: tuple[FailOn, ...]
    least_compared: float = LEAST_COMPARED
    most_inconclusive: float = MOST_INCONCLUSIVE
    as_json: bool = False
    formats: tuple[str, ...] = ()
    seed: int | None = None
    one_side: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRequest(Request):
    """A campaign of generated cases, of a module of the user's if `model` describes one.

    `budget` is in seconds, from `began` (monotonic) on; empty `paths` and `backends` mean all of them.

    `workers` is None for all CPUs of the cluster, `address` for the cluster whose Ray job this is, or one
    started on this machine. So many `programs` come before every 20 other cases, and a case
    has so many `inputs`. Every `twice_every`th case is run twice, none if 0. `fresh` runs every case again.
    With `known_cases`, those of known faults come first; None if the command decides.
    """

    seed: int
    model: Description | None = None
    cases: int | None = None
    budget: float | None = None
    began: float = field(default_factory=time.monotonic)
    paths: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    max_world_size: int
    inputs: int = 1
    programs: int = PROGRAMS
    workers: int | None = None
    address: str | None = None
    twice_every: int
    fresh: bool = False
    known_cases: bool | None = False

    @property
    def end(self) -> float:
        """When the budget ends (monotonic); never without one."""
        return self.began + self.budget if self.budget else float("inf")

    @property
    def drawing(self) -> Drawing:
        """Which case a number stands for."""
        return Drawing(
            seed=self.seed,
            model=self.model,
            paths=self.paths,
            max_world_size=self.max_world_size,
            inputs=self.inputs,
            programs=self.programs,
            known_cases=bool(self.known_cases),
        )

    @property
    def most_cases(self) -> int | None:
        """The largest number of cases; None if only the budget limits it."""
        return self.cases or (None if self.budget else CASES)
