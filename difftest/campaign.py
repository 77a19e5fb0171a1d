"""A campaign: run cases, compare, and turn what diverges into findings.

Search and execution come in as callables, so all of this is tested on fakes in milliseconds. Cases are examined
concurrently, and recorded in the order of their indices, so that what a campaign finds does not depend on timing.
"""

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol, TypeAlias

import msgspec

from difftest.blame import Square, verdict
from difftest.case import Case
from difftest.comparator import Comparison, compare, with_arbiter
from difftest.corpus import Corpus, Ending, Observation
from difftest.divergence import Divergence, Finding
from difftest.errors import InfrastructureError
from difftest.model import walk
from difftest.noise import SAMPLES_VARIABLE, SAMPLES_WHEN_IN_DOUBT
from difftest.outcome import Failure, Outcome

ORACLE = "oracle"
REPEATS = 2
"""How often a new divergence is run again in fresh processes before it is believed."""

TRIES = 2
"""How often a run that infrastructure spoiled is attempted before the campaign gives it up."""

Execute: TypeAlias = Callable[[Case, str, Mapping[str, str]], Outcome]
"""Runs a case on a backend, with further environment variables, and blocks until it ended; called from several threads."""

IN_DOUBT = {SAMPLES_VARIABLE: str(SAMPLES_WHEN_IN_DOUBT)}
"""What the oracle is run with before a mismatch is believed."""


class Described(Protocol):
    """What a campaign needs to know of a backend."""

    SIDE: str

    def unsupported(self, case: Case) -> str | None:
        """Why the backend cannot express a case, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What stays the same from case to case."""

    name: str
    backends: Mapping[str, Described]
    execute: Execute
    corpus: Corpus
    workers: int = 1
    purpose: str = "campaign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One run with what came of it."""

    backend: str
    outcome: Outcome
    started: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One case, run on every backend that supports it, and compared. `trouble` is what infrastructure failed at."""

    index: int
    case: Case
    runs: Mapping[str, Ran] = field(default_factory=dict)
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One more case is recorded: the findings it hit, new ones apart."""

    examined: Examined
    new: tuple[Finding, ...] = ()
    known: tuple[Finding, ...] = ()


def run(campaign: Campaign, cases: Iterable[tuple[int, Case]]) -> Iterator[Progress]:
    """Examines `cases` a few at a time, drawn as they are needed, and records each; yields once a case, in order."""
    with ThreadPoolExecutor(campaign.workers) as pool:
        waiting: deque[Future[Examined]] = deque()
        for index, case in cases:
            waiting.append(pool.submit(examine, campaign, index, case))
            if len(waiting) > campaign.workers:
                yield record(campaign, waiting.popleft().result())
        while waiting:
            yield record(campaign, waiting.popleft().result())


def examine(campaign: Campaign, index: int, case: Case) -> Examined:
    """Runs one case on the oracle and on every backend that supports it, and compares."""
    sides = {name: backend.SIDE for name, backend in campaign.backends.items() if not backend.unsupported(case)}
    try:
        runs = {name: attempt(campaign, case, name) for name in (ORACLE, *sides)}
        comparisons = _compare_all(campaign, case, runs, sides)
    except InfrastructureError as error:
        return Examined(index=index, case=case, trouble=str(error))
    return Examined(index=index, case=case, runs=runs, comparisons=with_arbiter(comparisons, sides))


def _compare_all(campaign: Campaign, case: Case, runs: Mapping[str, Ran], sides: Mapping[str, str]) -> dict[str, Comparison]:
    """Compares every run with the oracle's; where one mismatches, with an oracle that knows its noise better."""
    truth = runs[ORACLE].outcome
    comparisons = {name: compare(case, name, side, truth, runs[name].outcome) for name, side in sides.items()}
    doubtful = [name for name, comparison in comparisons.items() if _mismatches(comparison)]
    if doubtful:
        truth = attempt(campaign, case, ORACLE, IN_DOUBT).outcome
        comparisons |= {name: compare(case, name, sides[name], truth, runs[name].outcome) for name in doubtful}
    return comparisons


def _mismatches(comparison: Comparison) -> bool:
    return any(divergence.ratio is not None for divergence in comparison.divergences)


def attempt(campaign: Campaign, case: Case, backend: str, options: Mapping[str, str] | None = None) -> Ran:
    """One run; what infrastructure spoiled is run again before it is given up."""
    for left in reversed(range(TRIES)):
        started, clock = now(), time.monotonic()
        try:
            outcome = campaign.execute(case, backend, options or {})
        except InfrastructureError:
            if not left:
                raise
        else:
            return Ran(backend=backend, outcome=outcome, started=started, seconds=time.monotonic() - clock)
    raise AssertionError


def record(campaign: Campaign, examined: Examined) -> Progress:
    """Writes a case's runs to the corpus and its divergences to their findings."""
    new: list[Finding] = []
    known: list[Finding] = []
    for backend, comparison in examined.comparisons.items():
        if comparison.divergences:
            finding, is_new = _find(campaign, examined, comparison.divergences[0], examined.runs[backend])
            (new if is_new else known).append(finding)
    for ran in examined.runs.values():
        campaign.corpus.observe(observation(campaign, examined, ran))
    return Progress(examined=examined, new=tuple(new), known=tuple(known))


def observation(campaign: Campaign, examined: Examined, ran: Ran) -> Observation:
    """One run as the line that the tables are made of."""
    case, comparison = examined.case, examined.comparisons.get(ran.backend, Comparison(verdict="oracle"))
    backend = campaign.backends.get(ran.backend)
    return Observation(
        campaign=campaign.name,
        index=examined.index,
        case=case.id,
        backend=ran.backend,
        side=backend.SIDE if backend else ORACLE,
        purpose=campaign.purpose,
        path=case.path,
        mesh=str(case.layout.mesh),
        mesh_rank=len(case.layout.mesh.axes),
        world_size=case.world_size,
        dtype=case.dtype,
        optimizer=case.training.optimizer,
        loss=case.training.loss,
        regime=case.data.regime,
        layers=tuple(type(layer).__name__ for _, layer in walk(case.model.layers)),
        steps=case.training.steps,
        outcome=_ending(ran.outcome),
        verdict=comparison.verdict,
        reason=comparison.reason,
        fingerprints=tuple(d.fingerprint for d in comparison.divergences[:1]),
        measurements=comparison.measurements,
        environment=dict(ran.outcome.environment),
        started=ran.started,
        seconds=round(ran.seconds, 3),
    )


def now() -> str:
    """The time, ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _ending(outcome: Outcome) -> Ending:
    if isinstance(outcome, Failure):
        return Ending(status=outcome.symptom, stage=outcome.stage, step=outcome.step, kind=outcome.kind, message=outcome.message)
    return Ending(status="finished")


def _find(campaign: Campaign, examined: Examined, divergence: Divergence, ran: Ran) -> tuple[Finding, bool]:
    """The finding of a divergence, counted once more or new."""
    with campaign.corpus.locked():
        if known := _again(campaign.corpus, divergence, ran):
            return known, False
    new = _new(campaign, examined, divergence, ran)
    with campaign.corpus.locked():
        if known := _again(campaign.corpus, divergence, ran):  # another campaign found it meanwhile
            return known, False
        campaign.corpus.save(new, examined.case)
    return new, True


def _again(corpus: Corpus, divergence: Divergence, ran: Ran) -> Finding | None:
    """The finding of a divergence that the corpus knows, counted once more; None when it is new."""
    if divergence.fingerprint not in corpus.fingerprints():
        return None
    finding = corpus.finding(divergence.fingerprint)
    paths = tuple(sorted({*finding.paths, divergence.path}))
    counted = msgspec.structs.replace(finding, hits=finding.hits + 1, paths=paths, last_seen=ran.started)
    corpus.save(counted, corpus.case(divergence.fingerprint))
    return counted


def _new(campaign: Campaign, examined: Examined, divergence: Divergence, ran: Ran) -> Finding:
    """A new divergence is run again, and placed in the 2 x 2, before it becomes a finding."""
    case = examined.case
    repeats = [_compared(campaign, case, divergence.backend) for _ in range(REPEATS)]
    ended = [comparison for comparison in repeats if comparison is not None]
    stable = (sum(_shows(comparison, divergence) for comparison in ended), len(ended))
    square = _square(campaign, examined, divergence)
    named = {f: getattr(divergence, f) for f in Divergence.__struct_fields__ if f in Finding.__struct_fields__}
    return Finding(
        **named,
        fingerprint=divergence.fingerprint,
        blame=verdict(divergence.side, square, stable=stable),
        evidence={name: _word(diverges=value) for name, value in dataclasses.asdict(square).items()} | _consequences(examined, divergence),
        hits=1,
        case=case.id,
        paths=(case.path,),
        stable=stable,
        environment=dict(ran.outcome.environment),
        first_seen=ran.started,
        last_seen=ran.started,
    )


def _consequences(examined: Examined, divergence: Divergence) -> dict[str, str]:
    """What else the checks say of the same run: most often what the first divergence led to."""
    later = [d.check for d in examined.comparisons[divergence.backend].divergences if d.check != divergence.check]
    return {"then": ", ".join(dict.fromkeys(later))} if later else {}


def _word(*, diverges: bool | None) -> str:
    return "no telling" if diverges is None else "diverges" if diverges else "agrees"


def _square(campaign: Campaign, examined: Examined, divergence: Divergence) -> Square:
    """Runs what the 2 x 2 still lacks: both sides on one device. Only a new divergence pays for it."""
    single = examined.case.unsharded()
    others = _other_side(campaign, examined, divergence.side)
    return Square(
        single=_bad(campaign, single, divergence.backend, divergence),
        other=_parts(examined.comparisons[others[0]], divergence) if others else None,
        other_single=_bad(campaign, single, others[0], divergence) if others else None,
    )


def _other_side(campaign: Campaign, examined: Examined, side: str) -> Sequence[str]:
    """The other side's backends that ran this case, those that agreed with the oracle first."""
    ran = [name for name in examined.comparisons if side != campaign.backends[name].SIDE]
    return sorted(ran, key=lambda name: examined.comparisons[name].verdict != "agree")


def _bad(campaign: Campaign, case: Case, backend: str, divergence: Divergence) -> bool | None:
    if campaign.backends[backend].unsupported(case):
        return None
    return _parts(_compared(campaign, case, backend), divergence)


def _parts(comparison: Comparison | None, divergence: Divergence) -> bool | None:
    """Whether a run shows the same fault; None where there is no telling: it ended otherwise, or nothing could be compared."""
    if comparison is None or comparison.verdict == "inconclusive":
        return None
    if comparison.verdict == "agree":
        return False
    first = comparison.divergences[0]
    alike = (first.check, first.symptom, first.cause) == (divergence.check, divergence.symptom, divergence.cause)
    return True if alike else None


def _shows(comparison: Comparison, divergence: Divergence) -> bool:
    return any(d.fingerprint == divergence.fingerprint for d in comparison.divergences[:1])


def _compared(campaign: Campaign, case: Case, backend: str) -> Comparison | None:
    """A run made for a finding, in fresh processes, beside the oracle; None when infrastructure failed."""
    side = campaign.backends[backend].SIDE
    try:
        runs = {name: attempt(campaign, case, name) for name in (ORACLE, backend)}
        return _compare_all(campaign, case, runs, {backend: side})[backend]
    except InfrastructureError:
        return None
