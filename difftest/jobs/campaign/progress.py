"""The progress of a campaign on standard error: a bar on a terminal, a plain line now and then elsewhere."""

import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Self, TypeAlias

import click
from tqdm import tqdm

from difftest.campaign.campaign import ORACLE, Campaign
from difftest.campaign.recording import Progress
from difftest.cases.case import Case
from difftest.cases.twins import is_twin
from difftest.findings import titles
from difftest.findings.ledger import Ledger
from difftest.findings.standing import Standing
from difftest.ground.clock import utc_today
from difftest.ground.counted import counted
from difftest.ground.errors import InfrastructureError
from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign.tally import in_words
from difftest.jobs.screen.activity import EVERY_SECONDS
from difftest.judge.comparator import compare
from difftest.judge.fingerprint import DIGEST_LENGTH
from difftest.judge.outcome import Outcome, Symptom
from difftest.records.finding import Finding

VERDICTS = {
    "agree": "agrees with the float64 reference",
    "diverge": "differs from the float64 reference, which is to be confirmed",
    "inconclusive": "cannot be compared with the float64 reference",
    "unsupported": "lacks what the program needs",
}

KNOWN, NEW = "known", "new"

MOST_NAMED = 3
"""How many of the runs that go on a line names."""


def announce(request: CampaignRequest) -> None:
    """Says at once what will run and where its results go."""
    most, budget = request.most_cases, request.budget
    cases = "cases" if most is None else in_words(most, request.programs_beside(most))
    limit = f" within {budget:g} s" if budget else ""
    inputs = f", each with {request.inputs} inputs" if request.inputs > 1 else ""
    click.echo(f"{cases} of seed {request.seed}{inputs}{limit}; results in {request.out}", err=True)


Look: TypeAlias = Callable[[Case, str, Outcome | InfrastructureError], None]
"""Gets a case, a backend, and what came of the run."""

During: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""Gives the context in which runs of a backend go on."""


def _watched(
    campaign: Campaign, *, look: Look = lambda *_: None, during: During = lambda _: nullcontext()
) -> Campaign:
    """The campaign, each of whose runs goes on in the context `during`; `look` gets it when it has ended."""

    def execute(case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        with during(backend):
            outcome = campaign.execute(case, backend, options)
        look(case, backend, outcome)
        return outcome

    def execute_group(
        runs: Sequence[tuple[Case, str]], options: Mapping[str, str]
    ) -> Sequence[Outcome | InfrastructureError]:
        assert campaign.execute_group is not None  # noqa: S101  it is used only where there is one
        with during(runs[0][1]):
            outcomes = campaign.execute_group(runs, options)
        for (case, backend), outcome in zip(runs, outcomes, strict=True):
            look(case, backend, outcome)
        return outcomes

    group = campaign.execute_group and execute_group
    return dataclasses.replace(campaign, execute=execute, execute_group=group)


class FirstComparison:
    """Executes runs, and shows the first comparison with the oracle as soon as both of its runs are there.

    A case is compared when all of its backends ran, which takes longer.
    """

    def __init__(self, campaign: Campaign) -> None:
        self._campaign, self._start = campaign, time.monotonic()
        self._truths: dict[str, Outcome] | None = {}
        self._lock = threading.Lock()

    def watched(self) -> Campaign:
        """The campaign, whose runs are looked at."""
        return _watched(self._campaign, look=self._look)

    def _look(self, case: Case, backend: str, outcome: Outcome | InfrastructureError) -> None:
        if isinstance(outcome, InfrastructureError):
            return
        if self._truths is not None and (truth := self._truth(case, backend, outcome)):
            side = self._campaign.backends[backend].SIDE
            verdict = compare(case, backend, side, truth, outcome).verdict
            seconds = time.monotonic() - self._start
            click.echo(f"first comparison after {seconds:.0f} s: {backend} {VERDICTS[verdict]}", err=True)

    def _truth(self, case: Case, backend: str, outcome: Outcome) -> Outcome | None:
        """The oracle's outcome to compare the first candidate's with; None for all other runs."""
        with self._lock:
            if self._truths is None:
                return None
            if backend == ORACLE:
                self._truths[case.id] = outcome
                return None
            if truth := self._truths.get(case.id):
                self._truths = None
            return truth


class Meter:
    """Counts cases and findings, new ones and those that the ledger knows; shows them all the while.

    `cases` is None when only time ends the campaign: no case begins after `end`, and no run goes on after
    `cut` (both monotonic).
    """

    def __init__(self, cases: int | None, end: float, cut: float, ledger: Ledger) -> None:
        self._cases, self._end, self._cut, self._ledger = cases, end, cut, ledger
        self._start, self._ended = time.monotonic(), threading.Event()
        self._done = self._programs = self._new = self._known = self._runs = 0
        self._running: dict[object, tuple[str, float]] = {}
        self._bar = tqdm(total=cases, unit="case", disable=not sys.stderr.isatty(), dynamic_ncols=True)

    def watched(self, campaign: Campaign) -> Campaign:
        """The campaign, of whose runs the lines say which go on."""
        return _watched(campaign, during=self._shown_running)

    @contextmanager
    def _shown_running(self, backend: str) -> Iterator[None]:
        key = object()
        self._running[key] = (backend, time.monotonic())
        try:
            yield
        finally:
            del self._running[key]

    def __enter__(self) -> Self:
        if self._bar.disable:
            threading.Thread(target=self._show, name="progress of the cases", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._bar.close()

    def count(self, progress: Progress) -> None:
        """Counts one more case and shows it. What torch leaves open is no finding to count."""
        counts = not progress.result.postponed and not is_twin(progress.result.case)
        self._done += counts
        self._programs += counts and progress.result.case.model.is_program
        self._runs += progress.result.counted_runs
        shown = [self._line_of(finding, progress) for finding in progress.new]
        self._known += sum(line.startswith(KNOWN) for line in shown)
        self._new += sum(line.startswith(NEW) for line in shown)
        left = (
            self._left() if self._end < float("inf") else ""
        )  # tqdm itself estimates the time for a number of cases
        self._bar.set_postfix_str(f"{self._findings()}{left}")
        self._bar.update(int(not is_twin(progress.result.case)))
        for line in shown:
            self._bar.write(line, file=sys.stderr)

    def _show(self) -> None:
        """Prints a line every few seconds, also while the first case runs."""
        while not self._ended.wait(EVERY_SECONDS):
            click.echo(self._line(), err=True)

    def _line(self) -> str:
        rate = 60 * self._done / (time.monotonic() - self._start)
        cases = in_words(self._done - self._programs, self._programs)
        total = f" of {self._cases}" if self._cases else ""
        done = f", {rate:.1f} a minute, {counted(self._runs, 'run')}" if self._done else ""
        return f"{cases}{total}{done}, {self._findings()}{self._left()}{self._now()}"

    def _now(self) -> str:
        """Which runs go on, the longest first; empty for none."""
        now, going = time.monotonic(), [*self._running.values()]
        running = [f"{backend} for {now - began:.0f} s" for backend, began in going[:MOST_NAMED]]
        running += [f"{len(going) - MOST_NAMED} more"] if len(going) > MOST_NAMED else []
        return f"; running: {', '.join(running)}" if going else ""

    def _findings(self) -> str:
        return counted(self._new, "new finding") + (f", {self._known} known" if self._known else "")

    def _line_of(self, finding: Finding, progress: Progress) -> str:
        """What is said of a finding that a case showed first."""
        if entry := self._ledger.entry_of(finding, progress.result.case, utc_today()):
            return f"{KNOWN}  {self._named(finding, entry.reason)}"
        if finding.divergence.symptom is Symptom.UNDEFINED:
            return f"{Standing.LEFT_OPEN}  {self._named(finding)}"
        return f"{NEW}    {self._named(finding)}; {finding.blame}"

    def _named(self, finding: Finding, reason: str = "") -> str:
        """The id by which commands take a finding, and its title."""
        from workers.backends import titles as called

        return f"{finding.fingerprint[-DIGEST_LENGTH:]}  {titles.title(finding, called(), reason)}"

    def _left(self) -> str:
        """The time until the cases are done or the budget is spent; empty if there is neither limit."""
        now = time.monotonic()
        if now > self._end:
            return f", no new cases: the last runs end within {max(1.0, self._cut - now):.0f} s"
        elapsed = now - self._start
        waits = self._cases is not None and self._done >= self._cases
        left = [elapsed * (self._cases / self._done - 1)] if self._cases and self._done and not waits else []
        left += [self._end - now] if self._end < float("inf") else []
        if waits:
            return ", the last cases are recorded"
        return f", {max(1.0, min(left)):.0f} s left" if left else ""
