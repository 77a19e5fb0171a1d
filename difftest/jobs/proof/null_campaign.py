"""The null campaign: correct runs, on which nothing may be found.

Each is compared with the oracle and with a legal variant of itself.
"""

import contextlib
import itertools
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from difftest.campaign.campaign import ORACLE, Execute, ExecuteGroup, refused
from difftest.campaign.confirmation import MORE_SAMPLES
from difftest.campaign.evidence import shows_what_is_known
from difftest.cases.case import Case
from difftest.cases.resets import deciding
from difftest.findings.ledger import Ledger
from difftest.ground.clock import utc_today
from difftest.ground.errors import InfrastructureError, StoppedError
from difftest.jobs.proof.correct_runs import CorrectRun, check_correct_run
from difftest.jobs.proof.sweep import sweep
from difftest.judge.comparator import Comparison, compare
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Failure, Outcome, Trace
from difftest.records.evidence import DECIDED_BY

if TYPE_CHECKING:
    from workers.backends import Backend
    from workers.sides import Variant

NOTHING: Mapping[str, Any] = MappingProxyType({})
SWEEP_COUNT = 40
"""How many tensors of a case get an error of each size in the sweep."""

PROGRESS_EVERY = 10
"""How many cases go by between two lines of progress."""

Timed: TypeAlias = tuple[Outcome, float]
"""A run and its wall time in seconds."""

Wanted: TypeAlias = tuple[str, str]
"""A backend and the name of a variant; empty for the plain run."""


@dataclass(frozen=True, slots=True)
class CaseCheck:
    """One case of the null campaign: a row for each backend that ran it, and the errors of the sweep.

    An error is its size in noise floors, and whether it was detected. `unchecked` says why nothing was
    checked; it is empty where something was.
    """

    rows: tuple[CorrectRun, ...] = ()
    errors: tuple[tuple[float, bool], ...] = ()
    unchecked: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runs:
    """One backend's runs of a case: as it is, in `seconds` of wall time, and in legal variants by name."""

    plain: Outcome
    variants: Mapping[str, Outcome]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class NullCampaign:
    """What all cases of the null campaign share. Faults that `ledger` knows are not false findings.

    Without `execute_group`, every case runs alone. Every `vary_every`th case runs as a legal variant too.
    `made` has runs that need not be made any more, by the id of their case.
    """

    execute: Execute
    backends: Mapping[str, "Backend"]
    ledger: Ledger
    execute_group: ExecuteGroup | None = None
    vary_every: int = 1
    made: Mapping[tuple[str, Wanted], Timed] = field(default_factory=dict)

    def check_group(self, numbered: Sequence[tuple[int, Case]]) -> list[CaseCheck]:
        """Checks cases that can share processes, each as `check` does."""
        runs = self._together(numbered) if len(numbered) > 1 else {}
        return [replace(self, made=runs).check(one) for one in numbered]

    def check(self, numbered: tuple[int, Case]) -> CaseCheck:
        """Runs one case on a backend of either side, beside the oracle and one legal variant.

        Then errors of known sizes are swept through the oracle's tensors. The variants take turns with the
        case's index. Nothing is checked where the oracle or the infrastructure fails.
        """
        index, case = numbered
        try:
            return self._checked(index, case)
        except InfrastructureError as error:
            return CaseCheck(unchecked=f"case {case.id}: {error}")

    def _checked(self, index: int, case: Case) -> CaseCheck:
        truth, oracle_seconds = self._timed(case, (ORACLE, ""), {})
        if isinstance(truth, Failure):
            return CaseCheck(unchecked=f"case {case.id}: the oracle failed: {truth.message}")
        runs = {name: self._runs(index, case, name) for name in _chosen(self.backends, case)}
        runs = {name: run for name, run in runs.items() if not refused(run.plain)}
        rows = self._rows(case, truth, runs, oracle_seconds)
        if any(row.false for row in rows):
            # As in a campaign, the oracle runs with more samples before a mismatch is believed.
            precise = self.execute(case, ORACLE, MORE_SAMPLES)
            if isinstance(precise, Trace):
                rows = self._rows(case, precise, runs, oracle_seconds, self._decided(case, rows))
        return CaseCheck(rows, tuple(sweep(truth, case.unsharded().layout.mesh, SWEEP_COUNT, case.seed)))

    def _runs(self, index: int, case: Case, backend: str) -> _Runs:
        plain, seconds = self._timed(case, (backend, ""), {})
        if index % self.vary_every:
            return _Runs(plain=plain, variants={}, seconds=seconds)
        variant = self._variant(index, backend)
        other, _ = self._timed(variant.of(case), (backend, variant.name), variant.environment)
        return _Runs(plain=plain, variants={variant.name: other}, seconds=seconds)

    def _variant(self, index: int, backend: str) -> "Variant":
        variants = self.backends[backend].PROFILE.variants
        return variants[index % len(variants)]

    def _decided(self, case: Case, rows: Iterable[CorrectRun]) -> Mapping[str, Mapping[str, str]]:
        """By backend with a false finding, the evidence that a campaign gathers for the ledger's entries.

        These are the options and mechanisms that an entry names, and without which the case agrees, or shows
        another fault that is known.
        """
        return {
            row.backend: {DECIDED_BY: ", ".join(self._deciding(case, row.backend))}
            for row in rows
            if row.false
        }

    def _deciding(self, case: Case, backend: str) -> list[str]:
        named = {entry.decided_by for entry in self.ledger.counting(utc_today())} - {""}
        mechanisms = self.backends[backend].PROFILE.mechanisms
        runs = {name: (reset, NOTHING) for name, reset in deciding(case) if name in named}
        runs |= {name: (case, less) for name, less in mechanisms.items() if name in named}
        comparison = self._compared(case, backend) if runs else None
        if comparison is None or comparison.verdict != "diverge":
            return []
        shown = comparison.divergences[0]
        return [name for name, (run, less) in runs.items() if self._is_known(run, backend, shown, less)]

    def _is_known(self, case: Case, backend: str, shown: Divergence, environment: Mapping[str, str]) -> bool:
        """Whether the case agrees, or shows another fault than `shown`, which the ledger knows."""
        comparison = self._compared(case, backend, environment)
        entry = partial(self.ledger.entry, today=utc_today())
        agrees = comparison is not None and comparison.verdict == "agree"
        return agrees or shows_what_is_known(comparison, case, shown, entry)

    def _compared(
        self, case: Case, backend: str, environment: Mapping[str, str] = NOTHING
    ) -> Comparison | None:
        truth, outcome = self.execute(case, ORACLE, MORE_SAMPLES), self.execute(case, backend, environment)
        if not isinstance(truth, Trace):
            return None
        return compare(case, backend, self.backends[backend].SIDE, truth, outcome)

    def _rows(
        self,
        case: Case,
        truth: Trace,
        runs: Mapping[str, _Runs],
        oracle_seconds: float,
        evidence: Mapping[str, Mapping[str, str]] = NOTHING,
    ) -> tuple[CorrectRun, ...]:
        entry = partial(self.ledger.entry, case=case, today=utc_today())
        rows = {
            name: check_correct_run(
                case,
                name,
                self.backends[name].SIDE,
                truth,
                run.plain,
                run.variants,
                partial(entry, evidence=evidence.get(name, NOTHING)),
            )
            for name, run in runs.items()
        }
        return tuple(
            replace(row, seconds=runs[name].seconds, oracle_seconds=oracle_seconds)
            for name, row in rows.items()
        )

    def _timed(self, case: Case, wanted: Wanted, options: Mapping[str, str]) -> Timed:
        if run := self.made.get((case.id, wanted)):
            return run
        began = time.monotonic()
        return self.execute(case, wanted[0], options), time.monotonic() - began

    def _together(self, numbered: Sequence[tuple[int, Case]]) -> dict[tuple[str, Wanted], Timed]:
        """The runs of the cases, without those that the infrastructure spoils."""
        cases = defaultdict[Wanted, list[Case]](list)
        options: dict[Wanted, Mapping[str, str]] = {}
        for index, case in numbered:
            cases[ORACLE, ""].append(case)
            for backend in _chosen(self.backends, case):
                cases[backend, ""].append(case)
                if index % self.vary_every:
                    continue
                variant = self._variant(index, backend)
                options[backend, variant.name] = variant.environment
                cases[backend, variant.name].append(variant.of(case))
        runs = dict[tuple[str, Wanted], Timed]()
        for wanted, several in cases.items():
            with contextlib.suppress(InfrastructureError):
                runs |= self._made_together(several, wanted, options.get(wanted, {}))
        return runs

    def _made_together(
        self, cases: Sequence[Case], wanted: Wanted, options: Mapping[str, str]
    ) -> dict[tuple[str, Wanted], Timed]:
        if self.execute_group is None:
            return {}
        began = time.monotonic()
        outcomes = self.execute_group([(case, wanted[0]) for case in cases], options)
        seconds = (time.monotonic() - began) / len(cases)
        return {
            (case.id, wanted): (outcome, seconds)
            for case, outcome in zip(cases, outcomes, strict=True)
            if not isinstance(outcome, InfrastructureError)
        }


def check_all(
    campaign: NullCampaign, groups: Iterable[Sequence[tuple[int, Case]]], workers: int, after: int
) -> tuple[list[CaseCheck], StoppedError | None]:
    """The checks of all cases in their order, and what stopped the campaign before it had them all.

    A case that takes long keeps no other one back. `after` is how many cases come before the first.
    """
    groups, ended, done, stopped = list(groups), dict[int, list[CaseCheck]](), after, None
    # One thread more than there are workers: while a thread compares and sweeps, no worker waits for it.
    with ThreadPoolExecutor(workers + 1) as threads:
        futures = {threads.submit(campaign.check_group, group): place for place, group in enumerate(groups)}
        try:
            for future in as_completed(futures):
                ended[futures[future]] = checks = future.result()
                done += len(checks)
                _tell(checks, done)
        except StoppedError as stop:
            for future in futures:
                future.cancel()
            whole = itertools.takewhile(ended.__contains__, range(len(groups)))
            first = after + sum(len(groups[place]) for place in whole)
            words = f"{stop} after {done} cases; with --after {first} the same command checks the others"
            stopped = StoppedError(words, status=stop.status)
    return list(itertools.chain.from_iterable(checks for _, checks in sorted(ended.items()))), stopped


def _tell(checks: Sequence[CaseCheck], total: int) -> None:
    """Prints the false findings of a group, and the progress where a tenth case is among its cases."""
    for check in checks:
        for row in check.rows:
            if row.false:
                click.echo(f"case {row.case} on {row.backend}: {'; '.join(row.false)}", err=True)
        if check.unchecked:
            click.echo(f"not checked: {check.unchecked}", err=True)
    if total // PROGRESS_EVERY > (total - len(checks)) // PROGRESS_EVERY:
        click.echo(f"{total} cases checked", err=True)


def _chosen(backends: Mapping[str, "Backend"], case: Case) -> Iterator[str]:
    """One backend of each side that supports the case, chosen by the case's seed.

    Many cases on some backends each show more than few cases on all.
    """
    able = [(backend.SIDE, name) for name, backend in backends.items() if not backend.unsupported(case)]
    for one in sorted({side for side, _ in able}):
        names = [name for side, name in able if side == one]
        yield names[case.seed % len(names)]
