"""What stays the same from case to case: the backends, how a case is executed, and where results are kept."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from difftest.cases.case import Case
from difftest.clock import utc_now
from difftest.errors import InfrastructureError, UnsupportedError
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus

ORACLE = "oracle"

TRIES = 3
"""How often a run that the infrastructure spoiled is tried before the campaign gives it up."""

Execute: TypeAlias = Callable[[Case, str, Mapping[str, str]], Outcome]
"""Runs a case on a backend with further environment variables, and blocks until it ends.

Several threads call it at once.

`InfrastructureError` where the run could not be had.
"""


class BackendTraits(Protocol):
    """What a campaign needs to know of a backend."""

    SIDE: str

    FRAMEWORK: str
    """The one of its side's frameworks that it uses; empty where unknown."""

    def unsupported(self, case: Case) -> str | None:
        """Why the backend cannot express a case, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What stays the same from case to case.

    Every `twice_every`th case runs twice, which shows whether it gives the same bits; 0 disables this.
    `workers` is the number of cases, or of a finding's runs, that are in progress at a time.
    """

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
class BackendRun:
    """One run of a case on a backend. `started` is ISO 8601 in UTC, `seconds` the wall time."""

    backend: str
    outcome: Outcome
    started: str
    seconds: float


def run_backend(
    campaign: Campaign, case: Case, backend: str, options: Mapping[str, str] | None = None
) -> BackendRun:
    """Runs a case on a backend, with `options` as further environment variables.

    A run that the infrastructure spoiled is tried again, up to `TRIES` times; then the `InfrastructureError`
    is raised. An `UnsupportedError` is raised at once.
    """
    for left in reversed(range(TRIES)):
        started, clock = utc_now().isoformat(), time.monotonic()
        try:
            outcome = campaign.execute(case, backend, options or {})
        except InfrastructureError as error:
            if not left or isinstance(error, UnsupportedError):
                raise
        else:
            seconds = time.monotonic() - clock
            return BackendRun(backend=backend, outcome=outcome, started=started, seconds=seconds)
    raise AssertionError
