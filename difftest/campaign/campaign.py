"""What stays the same from case to case: backends, how a run is executed, and where results are kept."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, TypeAlias

from difftest.cases.case import Case
from difftest.errors import InfrastructureError, UnsupportedError
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus

ORACLE = "oracle"


TRIES = 3
"""How often a run that infrastructure spoiled is attempted before the campaign gives it up."""


Execute: TypeAlias = Callable[[Case, str, Mapping[str, str]], Outcome]
"""Runs a case on a backend, with further environment variables, and blocks until it ended; called from several threads."""


class BackendTraits(Protocol):
    """What a campaign needs to know of a backend."""

    SIDE: str

    FRAMEWORK: str
    """Of the side's frameworks the one that it uses; empty where that is not known."""

    def unsupported(self, case: Case) -> str | None:
        """Why the backend cannot express a case, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What stays the same from case to case. Every `twice_every`th case is run twice to see whether it gives the same bits; 0: none is."""

    name: str
    backends: Mapping[str, BackendTraits]
    execute: Execute
    corpus: Corpus
    workers: int = 1
    purpose: str = "campaign"
    twice_every: int = 0

    def siblings(self, backend: str) -> tuple[str, ...]:
        """The other backends of its side."""
        side = self.backends[backend].SIDE
        return tuple(name for name, one in self.backends.items() if side == one.SIDE and name != backend)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run with what came of it."""

    backend: str
    outcome: Outcome
    started: str
    seconds: float


def attempt(campaign: Campaign, case: Case, backend: str, options: Mapping[str, str] | None = None) -> Run:
    """One run; what infrastructure spoiled is run again before it is given up."""
    for left in reversed(range(TRIES)):
        started, clock = utc_now(), time.monotonic()
        try:
            outcome = campaign.execute(case, backend, options or {})
        except InfrastructureError as error:
            if not left or isinstance(error, UnsupportedError):
                raise
        else:
            return Run(backend=backend, outcome=outcome, started=started, seconds=time.monotonic() - clock)
    raise AssertionError


def utc_now() -> str:
    """The time, ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
