"""Correct runs: how often one would be reported, and what it costs to measure the rounding noise."""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from difftest.cases.case import Case
from difftest.jobs.proof.sweep import SWEPT
from difftest.judge import checks
from difftest.judge.comparator import Comparison, compare
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Failure, Outcome, Symptom, Trace
from workers import sides

REAL_FLOORS = 1000.0
"""In units of the rounding noise, which never reaches this.

A run of a framework that is so far off, in every variant alike, has a fault of its own, which the null
campaign lists apart. A smaller error is the backend's own fault only where the ledger has an entry, which a
person wrote after looking at it; all others count as false. So does every error of a reference: a definition
of ours may be wrong by any number.
"""

LedgerEntry: TypeAlias = Callable[[Divergence], object]
"""The ledger's entry about a divergence; None if it has none."""


def no_entry(_divergence: Divergence) -> object:
    """An empty ledger."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectRun:
    """One run, compared with the oracle and with legal variants of itself.

    `ratio` is its greatest error in units of the rounding noise. `false` says what would wrongly have been
    reported. `own` is the fingerprint of the framework's own fault, for a run that turned out not to be
    correct. `seconds` is the wall time of the plain run, `oracle_seconds` that of the oracle with all its
    simulated runs.
    """

    case: str
    path: str
    backend: str
    dtype: str
    optimizer: str
    variants: int
    ratio: float
    deterministic: bool
    seconds: float = 0.0
    oracle_seconds: float = 0.0
    false: tuple[str, ...] = ()
    own: str = ""


def null_summary(
    results: Sequence[CorrectRun], cost_units: Collection[str] = (), unchecked: Sequence[str] = ()
) -> dict[str, Any]:
    """How many runs were compared with their variants, and what would wrongly have been reported.

    The oracle's cost is relative to the runs of the backends in `cost_units`. `unchecked` says for each case
    that was not checked why.
    """
    ratios = sorted(r.ratio for r in results) or [0.0]
    return {
        "cases": len({r.case for r in results}),
        "unchecked": list(unchecked),
        "runs": len(results),
        "false_findings": sum(bool(r.false) for r in results),
        "greatest_ratio": ratios[-1],
        "beyond": {size: sum(ratio > size for ratio in ratios) / len(ratios) for size in SWEPT},
        "ratio_quantiles": {str(q): float(np.quantile(ratios, q)) for q in (0.5, 0.9, 0.99, 0.999)},
        "oracle_cost": _oracle_cost(results, cost_units),
        "not_deterministic": sum(not r.deterministic for r in results),
        "upstream_faults": dict(Counter(r.own for r in results if r.own)),
        "by_false_finding": [asdict(r) for r in results if r.false],
    }


def _oracle_cost(results: Sequence[CorrectRun], units: Collection[str]) -> float | None:
    """The oracle's wall time, rounding noise included, relative to the same case's run on one of `units`.

    The median over all such runs; None without any.
    """
    ratios = [r.oracle_seconds / r.seconds for r in results if r.backend in units and r.seconds and not r.own]
    return statistics.median(ratios) if ratios else None


def check_correct_run(  # noqa: PLR0913, PLR0917  one case, one backend, and its runs
    case: Case,
    backend: str,
    side: str,
    truth: Trace,
    plain: Outcome,
    variants: Mapping[str, Outcome],
    entry: LedgerEntry = no_entry,
) -> CorrectRun:
    """Compares one backend's run with the oracle, and its legal variants with the oracle and with the run.

    `variants` are by name: `again` is the same in fresh processes, others sum in another order. A run that
    fails, because of a fault of the framework, must fail in every variant. A run that finishes must be within
    rounding of the oracle, and so must its variants.
    """
    comparison = compare(case, backend, side, truth, plain)
    own = _own_fault(comparison, entry, math.inf if side == sides.DEFINITION else REAL_FLOORS)
    reports = {
        name: _false_report(case, backend, side, truth, outcome, own)
        for name, outcome in {"plain": plain, **variants}.items()
    }
    false = [f"{name}: {report}" for name, report in reports.items() if report]
    failed = isinstance(plain, Failure)
    differing = [name for name, outcome in variants.items() if isinstance(outcome, Failure) != failed]
    false += [f"{name}: fails where the plain run does not, or the other way round" for name in differing]
    return CorrectRun(
        case=case.id,
        path=case.path,
        backend=backend,
        dtype=case.dtype,
        optimizer=case.training.optimizer,
        variants=len(variants),
        ratio=max((m.ratio for m in comparison.measurements if comparison.verdict == "agree"), default=0.0),
        deterministic=same_bits(plain, variants["again"]) if "again" in variants else True,
        false=tuple(false),
        own=own,
    )


def same_bits(one: Outcome, other: Outcome) -> bool:
    """Whether two runs gave the same bits, or failed in the same kind of failure."""
    if isinstance(one, Failure) or isinstance(other, Failure):
        return isinstance(one, Failure) and isinstance(other, Failure) and one.kind == other.kind
    return all(
        mine.keys() == theirs.keys() and all(_equal(mine[key].pieces, theirs[key].pieces) for key in mine)
        for mine, theirs in zip(one.steps, other.steps, strict=True)
    )


def _own_fault(comparison: Comparison, entry: LedgerEntry, real_floors: float) -> str:
    """The fingerprint of the framework's own fault; empty if the run is correct.

    That is a failure, an error of `real_floors` and more, what torch's documentation leaves open, or a
    divergence that the ledger has an entry about.
    A hang is the framework's own only where the ledger says so: a run that was only slow looks the same.
    """
    first = comparison.divergences[:1]
    return next((d.fingerprint for d in first if _explained(d, real_floors) or entry(d)), "")


def _explained(divergence: Divergence, real_floors: float) -> bool:
    """Whether a divergence cannot be a correct run that the machine slowed down or rounded differently."""
    failed = checks.load(divergence.check).TRAITS.run_failed and divergence.symptom != Symptom.HANG
    open_by_torch = divergence.symptom is Symptom.UNDEFINED
    return failed or open_by_torch or (divergence.ratio or 0.0) >= real_floors


def _false_report(  # noqa: PLR0913, PLR0917  one run, and the framework's own fault
    case: Case, backend: str, side: str, truth: Trace, outcome: Outcome, own: str
) -> str:
    """What the comparator reports of a run that finished or hung, except the framework's own fault.

    All of it is false.
    """
    if isinstance(outcome, Failure) and outcome.symptom != Symptom.HANG:
        return ""
    first = compare(case, backend, side, truth, outcome).divergences[:1]
    return "".join(f"{d.check}: {d.detail}" for d in first if d.fingerprint != own)


def _equal(mine: Mapping[int, Any], theirs: Mapping[int, Any]) -> bool:
    return mine.keys() == theirs.keys() and all(
        np.array_equal(mine[rank], theirs[rank], equal_nan=True) for rank in mine
    )
