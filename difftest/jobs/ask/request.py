"""What a command was given, as typed data: the options that all commands with a campaign share.

A field declares its option (`difftest.jobs.ask.options`). A command with other options has a request of its
own in its file.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import click

from difftest.jobs.ask.case_source import Drawing, Seed
from difftest.jobs.ask.options import (
    ChosenBackends,
    Deciding,
    Duration,
    FailOnWords,
    Json,
    KnownFaults,
    Out,
    Workers,
    option,
)
from difftest.records.completeness import LEAST_COMPARED, MOST_INCONCLUSIVE

CASES = 40
"""How many cases a campaign has when neither a number nor a budget is given."""

TWICE_EVERY = 8
"""How often a case is run twice: a second run shows nondeterminism, and costs as much as the first."""

REFERENCES_EVERY = 8
"""How many cases there are for each twin, which takes two seconds of a CPU with the oracle's run of it."""

FailOn: TypeAlias = Literal["new", "any", "infra", "never"]


LeastCompared: TypeAlias = Annotated[
    float,
    option(
        cls=Deciding,
        type=click.FloatRange(0.0, 1.0),
        help="Exit with status 3 if a smaller share of a side's comparisons was made.",
    ),
]
MostInconclusive: TypeAlias = Annotated[
    float,
    option(
        cls=Deciding,
        type=click.FloatRange(0.0, 1.0),
        help="Exit with status 3 if a larger share of a side's comparisons is inconclusive.",
    ),
]
OutFolder: TypeAlias = Annotated[
    Path | str,
    option(type=Out(), help="The folder, or object storage, of the corpus and the reports."),
]


@dataclass(frozen=True, kw_only=True)
class CampaignPlan(Drawing):
    """Which cases a campaign runs, on what, and for how long.

    `budget` is in seconds, from `began` (monotonic) on; empty `backends` mean all of them. `workers` is None
    for all CPUs of the cluster, `address` for the cluster whose Ray job this is, or one on this machine.
    """

    cases: Annotated[
        int | None,
        option(
            type=click.IntRange(min=1),
            help=f"How many cases to run.  [default: {CASES}, or with --budget no limit]",
        ),
    ] = None
    budget: Annotated[
        float | None,
        option(
            type=Duration(),
            help="Stop after this time, such as 10m, evidence included; the same command continues.",
        ),
    ] = None
    began: float = field(default_factory=time.monotonic)
    backends: ChosenBackends = ()
    workers: Workers = None
    address: Annotated[
        str | None,
        option(
            cls=Deciding,
            help="The Ray cluster to join.  [default: that of RAY_ADDRESS, or one started on this machine]",
        ),
    ] = None
    twice_every: Annotated[
        int,
        option(
            type=click.IntRange(min=0),
            default=TWICE_EVERY,
            help="Run every Nth case twice to detect nondeterminism; 0 disables.",
        ),
    ]
    references_every: Annotated[
        int,
        option(
            type=click.IntRange(min=0),
            help="Check one in N cases against definitions in numpy and JAX too; 0 disables.",
        ),
    ] = REFERENCES_EVERY
    fresh: Annotated[
        bool,
        option(
            is_flag=True,
            help="Run every case again, even if --out has runs of this campaign; those are set aside.",
        ),
    ] = False

    @property
    def end(self) -> float:
        """When the budget ends (monotonic); never without one."""
        return self.began + self.budget if self.budget else float("inf")

    @property
    def most_cases(self) -> int | None:
        """The largest number of cases; None if only the budget limits it."""
        return self.cases or (None if self.budget else CASES)


@dataclass(frozen=True, kw_only=True)
class Request:
    """A campaign with reports: where they go, which faults are known, and what makes the exit status 1 or 3.

    `out` is a folder or an address (`difftest.jobs.campaign.storage`). `least_compared` and
    `most_inconclusive` are shares of the comparisons of each side, backend and path
    (`difftest.records.completeness`). `formats` are written in addition to the usual ones. `seed` is None for
    runs that were not generated here. With `one_side`, runs of one side are enough.
    """

    out: OutFolder
    ledger: KnownFaults
    fail_on: Annotated[
        tuple[FailOn, ...],
        option(
            cls=Deciding,
            type=FailOnWords(),
            default="new",
            metavar="new,any,infra|never",
            help="Exit with status 1 on new findings, any findings, infrastructure trouble, or never.",
        ),
    ]
    least_compared: LeastCompared = LEAST_COMPARED
    most_inconclusive: MostInconclusive = MOST_INCONCLUSIVE
    as_json: Json = False
    formats: tuple[str, ...] = ()
    seed: int | None = None
    one_side: bool = False


@dataclass(frozen=True, kw_only=True)
class CampaignRequest(Request, CampaignPlan):
    """A campaign of generated cases, with reports."""

    out: OutFolder = Path("runs/latest")
    seed: Seed
