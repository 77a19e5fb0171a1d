"""The tables of a report: pure functions from the long table (`reports.frame`) to small ones.

Verdicts are counted per comparison, which is one case on one backend in a campaign's own runs: with
repetitions and the runs that a finding needed, a case would count more often. Where campaigns disagree on a
comparison, the worst verdict counts, so that agree + diverge + inconclusive = cases.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from difftest.findings.causes import Cause
from difftest.judge.blame import LAYER
from difftest.judge.stage import STAGES
from difftest.records.comparisons import Comparisons, Counts
from difftest.records.completeness import why
from difftest.records.finding import Finding
from difftest.records.lacks import LackRow, SupportTable
from reports.frame import Mask, Table

VERDICTS = ("agree", "diverge", "inconclusive")
GREATEST_ERROR = "Greatest error in units of the rounding noise"
"""The title of `greatest_ratios`."""

COMPARED = "What was compared"
"""The title of `completeness`."""

AGREEMENT = "Agreement by path and backend"
"""The title of `agreement`."""

LACKING = "What backends lack for operators of programs"
"""The title of `support`."""

NAMELESS = "one of a chain"
"""What pages call an operator of a chain of which the run did not say which one it was."""

VARIED = ("dtype", "optimizer", "regime")
_PERCENTILES = {50: "median", 100: "greatest"}
FINDING = (
    *("fingerprint", "symptom", "stage", "backend", "side", "paths", "check", "blame", "layer", "upstream"),
    *("hits", "stable", "status", "ratio", "case", "first_seen", "last_seen"),
)


@dataclass(frozen=True, slots=True)
class Section:
    """A table with its title and a line on how to read it."""

    title: str
    note: str
    table: pd.DataFrame


def verdict_counts(t: Table, by: Sequence[str]) -> pd.DataFrame:
    """Comparisons and their verdicts, grouped by the columns `by`.

    With a backend among these, every comparison is a case of its own, and the column is called so.
    """
    table = counted(t.compared, by)
    table.insert(
        len(by),
        "cases" if "backend" in by else "comparisons",
        table[list(VERDICTS)].sum(axis=1).astype("int64"),
    )
    return table


def counted(compared: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """How many of the comparisons in some rows have each verdict, by some columns."""
    flags = pd.DataFrame({v: (compared["verdict"] == v).astype("int64") for v in VERDICTS})
    whole = pd.concat([compared[list(by)], flags], axis=1)
    return whole.groupby(list(by), observed=True).sum().astype("int64").reset_index()


def agreement(t: Table) -> pd.DataFrame:
    """Cases run, agree, diverge, inconclusive and lost by path and backend.

    Those that a worker refused count as lost. What was only lost is there too.
    """
    by = ["path", "backend"]
    places = t.all_comparisons.places.items()
    lost = [
        (place.path, place.backend, counts.lost.total() + counts.not_run.total()) for place, counts in places
    ]
    lost_by = pd.DataFrame(lost, columns=[*by, "lost"]).groupby(by)["lost"].sum()
    table = verdict_counts(t, by).astype(dict.fromkeys(by, "str")).set_index(by)
    whole = table.join(lost_by[lost_by > 0], how="outer").fillna(0).astype("int64")
    return whole.sort_index().reset_index()


def completeness(comparisons: Comparisons) -> pd.DataFrame:
    """How comparisons ended by side and backend, and why; the row of a whole side has the backend `all`."""
    rows = [
        {
            "side": side,
            "backend": backend,
            **ended(counts),
            "reasons": why(counts) if counts.completed < counts.requested or not counts.requested else "",
        }
        for side, total in comparisons.sides.items()
        for backend, counts in (("all", total), *comparisons.backends(side).items())
    ]
    return pd.DataFrame(rows, columns=["side", "backend", *ended(Counts()), "reasons"])


def ended(counts: Counts) -> dict[str, int]:
    """How some comparisons ended, as numbers by name."""
    reasons = ("inconclusive", "lost", "refused", "unsupported")
    numbers = {name: getattr(counts, name).total() for name in reasons}
    return {"requested": counts.requested, "completed": counts.completed, **numbers}


def diverging(t: Table) -> pd.DataFrame:
    """Cases run and diverging by path, backend and world size, where any diverges."""
    table = verdict_counts(t, ("path", "backend", "world_size"))[
        ["path", "backend", "world_size", "cases", "diverge"]
    ]
    return table[table["diverge"] > 0].reset_index(drop=True)


def greatest_ratios(t: Table) -> pd.DataFrame:
    """Each run's greatest error in units of the rounding noise, over runs, by path, backend and tensor stage.

    The columns are median, 99th percentile and maximum. Exact comparisons have no rounding noise and are left
    out. A quantile is an observed value, never one between two, so it may be infinity.
    """
    by = ["path", "backend", "tensor_stage"]
    each = greatest_of_runs(t, [*by, "run"], (t.runs["purpose"] == "campaign").to_numpy())
    table = _spread(each, by, "ratio", (50, 99, 100))
    return table.sort_values(by, key=_in_run_order, kind="stable").reset_index(drop=True)


def greatest_of_runs(t: Table, by: Sequence[str], chosen: Mask) -> pd.DataFrame:
    """The greatest error of the `chosen` runs in units of the rounding noise, by some columns.

    `run` is one of them. Exact comparisons have no rounding noise and are left out.
    """
    return pd.concat([_greatest(part, list(by)) for part in t.slices((*by, "ratio", "exact"), chosen)])


def run_times(t: Table) -> pd.DataFrame:
    """Wall seconds of every run: median, 95th percentile and maximum by backend and world size."""
    return _spread(t.runs, ["backend", "world_size"], "seconds", (50, 95, 100))


def failures(t: Table) -> pd.DataFrame:
    """A campaign's runs that did not finish, by symptom, stage, backend and kind; most frequent first."""
    ended = t.runs[(t.runs["purpose"] == "campaign") & (t.runs["status"] != "finished")]
    by = ["status", "stage", "backend", "kind"]
    each = ended.groupby(by, observed=True, dropna=False)
    table = each.agg(runs=("run", "size"), cases=("case", "nunique")).astype("int64").reset_index()
    return (
        table.rename(columns={"status": "symptom"})
        .sort_values("runs", ascending=False, kind="stable")
        .reset_index(drop=True)
    )


def findings(shown: Iterable[Finding]) -> pd.DataFrame:
    """A row a finding, in the order given."""
    rows = [row(finding) | _in_words(finding) for finding in shown]
    return pd.DataFrame(rows, columns=list(FINDING)).astype({"hits": "int64", "ratio": "float64"})


def by_cause(shown: Iterable[Cause]) -> pd.DataFrame:
    """A row a cause, in the order given: its first finding, with all backends, operators and cases."""
    chosen = list(shown)
    table = findings(cause.finding for cause in chosen)
    table["backend"] = [", ".join(cause.backends) for cause in chosen]
    table["hits"] = pd.Series([cause.hits for cause in chosen], dtype="int64")
    if any(cause.operators for cause in chosen):
        table["operators"] = [cause.operators_in_short for cause in chosen]
    return table


def row(finding: Finding) -> dict[str, Any]:
    """The columns `FINDING` of a finding, as values; `layer` is empty where its evidence names none."""
    divergence = finding.divergence
    values = {
        "symptom": divergence.symptom,
        "stage": divergence.stage,
        "backend": divergence.backend,
        "side": divergence.side,
        "check": divergence.check,
        "ratio": divergence.ratio,
        "paths": paths(finding),
        "layer": finding.evidence.get(LAYER, ""),
    }
    return {name: values[name] if name in values else getattr(finding, name) for name in FINDING}


def paths(finding: Finding) -> tuple[str, ...]:
    """Every path on which a case showed the finding, sorted."""
    return tuple(sorted({finding.divergence.path, *finding.paths}))


def compared(comparisons: Comparisons) -> Section:
    """What was compared, with its title, as pages show it."""
    note = "of the last campaign, a case on a backend; what a backend does not support was not requested"
    return Section(COMPARED, note, completeness(comparisons))


def support(lacks: SupportTable) -> pd.DataFrame:
    """What backends lack, a row for each operator and backend, with the number of programs."""
    rows = [row._asdict() | {"dtypes": ", ".join(row.dtypes)} for row in lacks.rows()]
    return pd.DataFrame(rows, columns=list(LackRow._fields)).astype({"programs": "int64"})


def sections(t: Table) -> tuple[Section, ...]:
    """Every table of the long table with its title, as pages show them; empty ones are left out."""
    counted = (
        Section(f"Verdicts by {by}", "a comparison is a case on one backend", verdict_counts(t, (by,)))
        for by in VARIED
    )
    whole = (
        Section(
            AGREEMENT,
            "a case that ran again counts once, with its worst verdict",
            agreement(t),
        ),
        Section(
            "Diverging cases by path, backend and world size", "only where a case diverges", diverging(t)
        ),
        Section(LACKING, _support_note(t.lacks), support(t.lacks)),
        Section("Failures by symptom", "campaign runs that did not finish", failures(t)),
        Section(
            GREATEST_ERROR,
            "over campaign runs; exact comparisons have no rounding noise and are left out",
            greatest_ratios(t),
        ),
        *counted,
        Section("Run times in seconds", "every run, for whatever purpose", run_times(t)),
    )
    return tuple(section for section in whole if len(section.table))


def _support_note(lacks: SupportTable) -> str:
    """How to read the support table, with what its dashes and placeholders stand for, where it has any."""
    rows = list(lacks.rows())
    chains = f"{NAMELESS}: the run called several operators, and did not say which of them lacks it"
    notes = {
        chains: any(not row.operator for row in rows),
        "a dash: the framework names no overload of its own": any(not row.overload for row in rows),
        "N: a number": any("#" in row.reason for row in rows),
    }
    return "; ".join(["a missing capability is no finding", *(note for note, true in notes.items() if true)])


def _greatest(part: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """The greatest ratio of inexact measurements in a slice of the long table, by some columns."""
    rows = part[part["ratio"].notna() & ~part["exact"].fillna(value=True)]
    return rows.groupby(by, observed=True)["ratio"].max().reset_index()


def _in_words(finding: Finding) -> dict[str, str]:
    stable, tried = finding.stable
    return {
        "symptom": str(finding.divergence.symptom),
        "stage": str(finding.divergence.stage),
        "paths": ", ".join(paths(finding)),
        "stable": f"{stable}/{tried}" if tried else "",
    }


def _in_run_order(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Stages in the order of a run; other columns as they are."""
    return (
        column.map({str(stage): number for number, stage in enumerate(STAGES)})
        if column.name == "tensor_stage"
        else column
    )


def _spread(each: pd.DataFrame, by: list[str], column: str, percents: Sequence[int]) -> pd.DataFrame:
    """The number of runs by the columns `by`, and percentiles of `column` over them, all observed values."""
    names = [_PERCENTILES.get(percent, f"p{percent}") for percent in percents]
    rows = []
    for key, group in each.groupby(by, observed=True)[column]:
        values = np.sort(group.to_numpy())
        places = [int(np.ceil(percent / 100 * len(values))) - 1 for percent in percents]
        rows.append((*key, len(values), *(float(values[place]) for place in places)))
    return pd.DataFrame(rows, columns=[*by, "runs", *names]).astype(
        {"runs": "int64"} | dict.fromkeys(names, "float64")
    )
