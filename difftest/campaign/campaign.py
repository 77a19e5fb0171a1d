"""What stays the same from case to case: the backends, how a case is executed, and where results are kept."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeAlias

from difftest.cases.case import Case
from difftest.cases.twins import is_twin
from difftest.ground.clock import utc_now
from difftest.ground.errors import InfrastructureError, LethalError, NoTimeError, UnsupportedError
from difftest.judge.divergence import Divergence
from difftest.judge.losses import Losses, losses
from difftest.judge.outcome import Failure, Outcome, Symptom
from difftest.judge.stage import Stage
from difftest.records.corpus import Corpus

ORACLE = "oracle"

TRIES = 3
"""How often a run that the infrastructure spoiled is tried before the campaign gives it up."""

LETHAL_TIMES = 2
"""After how many lethal errors a run is set aside: the case, and not the machine, is then to blame."""

RunKey: TypeAlias = tuple[str, str, tuple[tuple[str, str], ...]]
"""A case's id, a backend, and the options of a run."""

Execute: TypeAlias = Callable[[Case, str, Mapping[str, str]], Outcome]
"""Runs a case on a backend with further environment variables, and blocks until it ends.

Several threads call it at once.

`InfrastructureError` where the run could not be had.
"""

ExecuteGroup: TypeAlias = Callable[
    [Sequence[tuple[Case, str]], Mapping[str, str]], Sequence[Outcome | InfrastructureError]
]
"""Runs cases, each on its backend, as `Execute` does; those that can share processes do, one after another.

It gives an outcome for each run, or the error by which the infrastructure spoiled it.
"""


class Explanation(Protocol):
    """What explains a divergence of a case, such as the ledger's entry; None where nothing does.

    `evidence` is that of a finding, where there is one.
    """

    def __call__(self, shown: Divergence, case: Case, /, *, evidence: Mapping[str, str] = ...) -> object:
        """What explains it, or None."""


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
    `workers` is the number of runs at a time, and of cases. Without `execute_group`, every case runs alone.
    `follows` names for a backend the one behind which it may run in the same processes.
    `mechanisms` has for a backend what its framework does behind every program and may do wrongly, each with
    the environment variables without which it is not done.
    Where `capacity` is given, it returns that number as it is now, which may grow.
    Of the findings that `explanation` explains, one in `known_in_full` has all the evidence of a new one.
    `foreign`: somebody else may have made the cases, as those of bundles.
    `blind` gives by backend and check the blind share of a case (`difftest.records.blind`) on some backends.
    `references` are the backends that run the twins of cases (`difftest.cases.twins`), and nothing else.
    `set_aside` has the runs that killed what ran them `LETHAL_TIMES` times: they are not made again.
    """

    name: str
    backends: Mapping[str, BackendTraits]
    execute: Execute
    corpus: Corpus
    execute_group: ExecuteGroup | None = None
    follows: Mapping[str, str] = field(default_factory=dict)
    mechanisms: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    foreign: bool = False
    workers: int = 1
    capacity: Callable[[], int] | None = None
    purpose: str = "campaign"
    twice_every: int = 0
    explanation: Explanation = lambda *_, **__: None
    known_in_full: int = 1
    references: frozenset[str] = frozenset()
    blind: Callable[[Case, Iterable[str]], Mapping[str, Mapping[str, float]]] = lambda _case, _backends: {}
    set_aside: "dict[RunKey, BackendRun]" = field(default_factory=dict)

    def ordinary(self) -> Mapping[str, BackendTraits]:
        """The backends that run what is no twin."""
        return {name: backend for name, backend in self.backends.items() if name not in self.references}

    def running(self, case: Case) -> Mapping[str, BackendTraits]:
        """The backends that a case is compared on."""
        if self.references and is_twin(case):
            return {name: self.backends[name] for name in sorted(self.references)}
        return self.ordinary()

    def siblings(self, backend: str) -> tuple[str, ...]:
        """The other backends of its side."""
        side = self.backends[backend].SIDE
        return tuple(name for name, one in self.backends.items() if side == one.SIDE and name != backend)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendRun:
    """One run of a case on a backend. `started` is ISO 8601 in UTC, `seconds` the wall time.

    `losses` are there once it is without tensors.
    """

    backend: str
    outcome: Outcome
    started: str
    seconds: float
    losses: Losses = field(default_factory=Losses)

    def without_tensors(self) -> Self:
        """The run as it is recorded: whoever keeps it keeps no tensors."""
        if isinstance(self.outcome, Failure):
            return self
        bare = dataclasses.replace(self.outcome, steps=(), noise=())
        return dataclasses.replace(self, outcome=bare, losses=losses(self.outcome))


def run_key(case: Case, backend: str, options: Mapping[str, str]) -> RunKey:
    """What is equal for equal runs."""
    return case.id, backend, tuple(sorted(options.items()))


def run_backend(
    campaign: Campaign, case: Case, backend: str, options: Mapping[str, str] | None = None
) -> BackendRun:
    """Runs a case on a backend, with `options` as further environment variables.

    A run that the infrastructure spoiled is tried again, up to `TRIES` times; then the `InfrastructureError`
    is raised. A `NoTimeError` and an `UnsupportedError` are raised at once. A run that raises a `LethalError`
    `LETHAL_TIMES` times has a crash as its outcome, and is set aside: later calls return it without running
    anything.
    """
    options = options or {}
    key = run_key(case, backend, options)
    if key in campaign.set_aside:
        return campaign.set_aside[key]
    deaths = 0
    for left in reversed(range(TRIES)):
        started, clock = utc_now().isoformat(), time.monotonic()
        try:
            outcome = campaign.execute(case, backend, options)
        except InfrastructureError as error:
            deaths += isinstance(error, LethalError)
            if isinstance(error, LethalError) and deaths == LETHAL_TIMES:
                run = _backend_run(backend, _crash(error), started, clock)
                campaign.set_aside[key] = run
                return run
            if not left or isinstance(error, NoTimeError | UnsupportedError):
                raise
        else:
            if reason := refused(outcome):
                raise UnsupportedError(reason)
            return _backend_run(backend, outcome, started, clock)
    raise AssertionError


def refused(outcome: Outcome) -> str:
    """Why the backend cannot run the case, as it showed in the run's process; empty for any other run."""
    if isinstance(outcome, Failure) and outcome.kind == UnsupportedError.__name__:
        return outcome.message
    return ""


def _backend_run(backend: str, outcome: Outcome, started: str, clock: float) -> BackendRun:
    return BackendRun(backend=backend, outcome=outcome, started=started, seconds=time.monotonic() - clock)


def _crash(error: LethalError) -> Failure:
    """The outcome of a run that was lethal again; the stage is that of a run of which nothing is known."""
    return Failure(
        symptom=Symptom.CRASH,
        stage=Stage.BUILD,
        step=0,
        kind=error.kind,
        message=f"{LETHAL_TIMES} times: {error}",
    )
