"""The null campaign: correct runs, on which nothing may be found.

Each is compared with the oracle and with a legal variant of itself.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from difftest.campaign.campaign import ORACLE, Execute
from difftest.campaign.case_run import MORE_SAMPLES
from difftest.cases.case import Case
from difftest.clock import utc_today
from difftest.errors import InfrastructureError
from difftest.findings.ledger import Ledger
from difftest.judge.outcome import Failure, Outcome, Trace
from difftest.selftest.correct_runs import CorrectRun, check_correct_run
from difftest.selftest.sweep import sweep

if TYPE_CHECKING:
    from workers.backends import Backend

SWEEP_COUNT = 40
"""How many tensors of a case get an error of each size in the sweep."""


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
    """What all cases of the null campaign share. Faults that `ledger` knows are not false findings."""

    execute: Execute
    backends: Mapping[str, "Backend"]
    ledger: Ledger

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
        truth, oracle_seconds = self._timed(case, ORACLE)
        if isinstance(truth, Failure):
            return CaseCheck(unchecked=f"case {case.id}: the oracle failed: {truth.message}")
        runs = {name: self._runs(index, case, name) for name in _chosen(self.backends, case)}
        rows = self._rows(case, truth, runs, oracle_seconds)
        if any(row.false for row in rows):
            # As in a campaign, the oracle runs with more samples before a mismatch is believed.
            precise = self.execute(case, ORACLE, MORE_SAMPLES)
            if isinstance(precise, Trace):
                rows = self._rows(case, precise, runs, oracle_seconds)
        return CaseCheck(rows, tuple(sweep(truth, case.unsharded().layout.mesh, SWEEP_COUNT, case.seed)))

    def _runs(self, index: int, case: Case, backend: str) -> _Runs:
        variants = self.backends[backend].PROFILE.variants
        name, options = variants[index % len(variants)]
        plain, seconds = self._timed(case, backend)
        return _Runs(plain=plain, variants={name: self.execute(case, backend, options)}, seconds=seconds)

    def _rows(
        self, case: Case, truth: Trace, runs: Mapping[str, _Runs], oracle_seconds: float
    ) -> tuple[CorrectRun, ...]:
        entry = partial(self.ledger.entry, case=case, today=utc_today())
        rows = {
            name: check_correct_run(
                case, name, self.backends[name].SIDE, truth, run.plain, run.variants, entry
            )
            for name, run in runs.items()
        }
        return tuple(
            replace(row, seconds=runs[name].seconds, oracle_seconds=oracle_seconds)
            for name, row in rows.items()
        )

    def _timed(self, case: Case, backend: str) -> tuple[Outcome, float]:
        """A run, and its wall time in seconds."""
        began = time.monotonic()
        return self.execute(case, backend, {}), time.monotonic() - began


def _chosen(backends: Mapping[str, "Backend"], case: Case) -> Iterator[str]:
    """One backend of each side that supports the case, chosen by the case's seed.

    Many cases on some backends each show more than few cases on all.
    """
    able = [(backend.SIDE, name) for name, backend in backends.items() if not backend.unsupported(case)]
    for one in sorted({side for side, _ in able}):
        names = [name for side, name in able if side == one]
        yield names[case.seed % len(names)]
