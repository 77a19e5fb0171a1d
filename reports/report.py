"""What every format renders: the long table, the findings, and what follows from both."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from difftest.findings import titles
from difftest.findings.causes import Cause, causes
from difftest.findings.ledger import Ledger, read_ledger
from difftest.findings.standing import Standing, grouped, headline, standing
from difftest.ground.clock import utc_now, utc_today
from difftest.ground.counted import counted
from difftest.ground.errors import UsageError
from difftest.judge.losses import LEAST_STEPS
from difftest.judge.outcome import Symptom
from difftest.records.comparisons import ORACLE, Comparisons, Counts
from difftest.records.conclusion import NOTHING, Conclusion, concluded
from difftest.records.corpus import CORPUS, Corpus
from difftest.records.curves import Curve, curves
from difftest.records.finding import Finding
from difftest.records.totals import UNKNOWN, Entries
from reports import covered as coverage_of
from reports import tables
from reports.frame import Table, cases_and_programs, load
from reports.kept import KeptFiles, kept

LONGEST = 4
"""Of how many of the longest cases a report has the loss curves."""

_SYMPTOMS = tuple(Symptom)


@dataclass(frozen=True, kw_only=True)
class Report:
    """An output folder at one moment.

    New `findings` come first, then the hardest symptom, then the most cases. `campaign` is the one that the
    report is about; empty for the one that began last. `given` is how far its result can be believed; None
    where the usual limits and `never_worked` decide that, which has by fingerprint the issues of faults that
    end every run of a backend. `kept` is what lies in the findings' folders, by
    fingerprint, `folder` the output folder as commands name it, and `called` what users call each backend.
    `entries` are what cases are generated from, so that the coverage has a number to stand beside.
    `warning` says which entries of the ledger expire soon; empty where none does.
    `curves` are the losses of the cases that findings of wrong numbers are about, and of those in `longest`,
    the last campaign's cases of the most steps.

    It has no slots, so that its cached properties are computed once.
    """

    title: str
    generated: datetime
    frame: Table
    findings: tuple[Finding, ...]
    campaign: str = ""
    given: Conclusion | None = None
    never_worked: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, KeptFiles] = field(default_factory=dict)
    folder: str = ""
    called: Mapping[str, str] = field(default_factory=dict)
    entries: Entries = UNKNOWN
    warning: str = ""
    longest: tuple[str, ...] = ()
    curves: Mapping[str, tuple[Curve, ...]] = field(default_factory=dict)

    @cached_property
    def last_campaign(self) -> str:
        """The campaign that the report is about; empty when there is none."""
        began = self.frame.began
        return self.campaign or ("" if began.empty else str(began.index[-1]))

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The runs of the last campaign."""
        return self.frame.runs[self.frame.runs["campaign"] == self.last_campaign]

    @cached_property
    def new(self) -> frozenset[str]:
        """The fingerprints that nobody knows, and that are the last campaign's first or not announced yet."""
        own = (f for f in self.findings if f.new_to(self.last_campaign))
        return frozenset(f.fingerprint for f in own if standing(f) is Standing.UNKNOWN)

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """How many cases and how many programs of operators the last campaign ran."""
        return cases_and_programs(self.runs)

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        """The findings by cause."""
        return causes(self.findings)

    @cached_property
    def groups(self) -> Mapping[Standing, tuple[Cause, ...]]:
        """The causes by what a reader has to do about them."""
        return grouped(self.causes)

    def of(self, finding: Finding) -> KeptFiles:
        """What is kept of a finding; only its title where its folder was not read."""
        return self.kept.get(finding.fingerprint) or KeptFiles(title=titles.title(finding, self.called))

    def spoken(self, backend: str) -> str:
        """What users call a backend."""
        return titles.spoken(backend, self.called)

    def has_new(self, cause: Cause) -> bool:
        """Whether one of a cause's findings is new; of a folder's first campaign all are, and none counts."""
        only = len(self.frame.began) <= 1 and len(self.new) == len(self.findings)
        return not only and any(finding.fingerprint in self.new for finding in cause.findings)

    @cached_property
    def comparisons(self) -> Comparisons:
        """How the comparisons of the last campaign ended."""
        return self.frame.comparisons.get(self.last_campaign, Comparisons())

    @cached_property
    def conclusion(self) -> Conclusion:
        """How far the result of the last campaign can be believed."""
        return self.given or concluded(self.comparisons, never_worked=self.never_worked)

    @property
    def incomplete(self) -> tuple[str, ...]:
        """What the last campaign did not compare enough of, as `subject: why`; empty for a whole result."""
        return self.conclusion.incomplete

    @cached_property
    def headline(self) -> str:
        """What to do in a few words; a report of too little says that first."""
        return self.conclusion.headline(headline(self.groups, alone=not self.conclusion.opening))

    @cached_property
    def sections(self) -> tuple[tables.Section, ...]:
        """The tables of verdicts and errors, with their titles; empty ones are left out."""
        return tables.sections(self.frame)

    @cached_property
    def covered(self) -> tuple[tables.Section, ...]:
        """The tables of what was reached, with their titles; none where nothing was recorded."""
        return tuple(coverage_of.sections(self.frame, self.entries))

    @cached_property
    def environment(self) -> Mapping[str, Mapping[str, str]]:
        """Versions by backend, as its last run reported them.

        A run that finished is preferred, as a failed one may report less.
        """
        ran = self.frame.runs.dropna(subset=["environment"])
        ran = ran[ran["environment"] != "{}"].assign(finished=ran["status"] == "finished")
        ran = ran[["backend", "environment", "finished", "started"]]
        last = ran.sort_values(["finished", "started"], kind="stable").drop_duplicates("backend", keep="last")
        return {
            str(r.backend): json.loads(str(r.environment)) for r in last.sort_values("backend").itertuples()
        }

    @cached_property
    def verdict(self) -> str:
        """The whole report in one sentence."""
        compared, head = self.frame.compared, self._findings_in_words()
        ended = Counts()
        for side in self.comparisons.sides.values():
            ended.include(side)
        opening = NOTHING if compared.empty else self.conclusion.opening
        head = " ".join(filter(None, (opening, head)))
        if compared.empty:
            return f"{head}{f'; {ended.not_judged}' if ended.not_judged else ''}."
        cases, programs = cases_and_programs(self.frame.runs)
        backends = compared["backend"].nunique()
        counts = {v: int((compared["verdict"] == v).sum()) for v in tables.VERDICTS}
        drawn = [_count(cases, "case")] * bool(cases) + [_count(programs, "program")] * bool(programs)
        where = f"in {' and '.join(drawn)} on {_count(backends, 'backend')}"
        verdicts = f"{counts['agree']:,} agree, {counts['diverge']:,} diverge"
        others = f"{counts['inconclusive']:,} are inconclusive"
        rest = f"{others}; {ended.not_judged} beside them" if ended.not_judged else others
        return f"{head} {where}: of {_count(len(compared), 'comparison')} {verdicts}, {rest}."

    def _findings_in_words(self) -> str:
        """The number of findings, of new ones, of known ones, and of their causes."""
        counts = {
            "new": len(self.new),
            "known": sum(bool(finding.upstream) for finding in self.findings),
            "causes": len(self.causes) if len(self.causes) < len(self.findings) else 0,
        }
        details = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        return _count(len(self.findings), "finding") + (f" ({details})" if details else "")


def build(  # noqa: PLR0913  as `reports.write.write`
    out: Path,
    campaign: str = "",
    conclusion: Conclusion | None = None,
    called: Mapping[str, str] = MappingProxyType({}),
    *,
    entries: Entries = UNKNOWN,
    ledger: Ledger | None = None,
) -> Report:
    """The report of the output folder `out` about `campaign`, by default the one that began last.

    `conclusion` is `given` of `Report`, `called` and `entries` are as there, `ledger` as in
    `reports.write.write`.

    `UsageError` when it holds no corpus or one that cannot be read.
    """
    root = out / CORPUS
    if not root.is_dir():
        expected = f"expected a folder {str(root)!r} as `difftest run --out {out}` makes it"
        msg = f"{str(out)!r} holds no corpus; {expected}"
        raise UsageError(msg)
    corpus = Corpus(root)
    findings, known_faults = tuple(corpus.findings()), ledger or read_ledger()
    report = Report(
        title=f"difftest: {out.resolve().name}",
        generated=utc_now(),
        frame=load(corpus),
        findings=findings,
        campaign=campaign,
        given=conclusion,
        never_worked=known_faults.never_worked({f.fingerprint: f.divergence for f in findings}, utc_today()),
        kept=kept(corpus, findings, called, known_faults),
        folder=str(out),
        called=called,
        entries=entries,
        warning=known_faults.warning(utc_today()),
    )
    longest = _longest(report)
    shown = {finding.case for finding in findings if finding.divergence.ratio is not None}
    drawn = curves(corpus, shown.union(longest))
    return _ordered(replace(report, longest=longest, curves=drawn))


def of_finding(corpus: Corpus, finding: Finding, called: Mapping[str, str], folder: Path) -> Report:
    """A report about one finding and no run.

    `called` is as in `Report`, and `folder` is the finding's own as commands name it.
    """
    return Report(
        title=finding.fingerprint,
        generated=utc_now(),
        frame=load(None),
        findings=(finding,),
        kept=kept(corpus, (finding,), called, read_ledger()),
        folder=str(folder.parent.parent),
        called=called,
    )


def _longest(report: Report) -> tuple[str, ...]:
    """The cases of the last campaign with the most steps, of those whose runs have a loss curve."""
    runs = report.runs
    own = runs[(runs["side"] == ORACLE) & (runs["steps"] >= LEAST_STEPS)]
    return tuple(own.sort_values("steps", ascending=False, kind="stable")["case"].drop_duplicates()[:LONGEST])


def environment_of(runs: pd.DataFrame) -> dict[str, dict[str, str]]:
    """What all runs of a backend reported alike, by backend.

    What differs from case to case on one of the backends is left out of all.
    """
    reported = runs[["backend", "environment"]].dropna().astype("str").drop_duplicates()
    values: dict[str, dict[str, set[str]]] = {}
    for backend, text in reported.itertuples(index=False):
        own = values.setdefault(backend, {})
        for key, value in json.loads(text).items():
            own.setdefault(key, set()).add(value)
    of_cases = {key for own in values.values() for key, each in own.items() if len(each) > 1}
    return {
        backend: {key: min(each) for key, each in sorted(own.items()) if key not in of_cases}
        for backend, own in sorted(values.items())
    }


def merged(environment: Mapping[str, Mapping[str, str]]) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Each (key, value) with the backends that reported it; no backends where all did."""
    pairs = sorted({(key, value) for reported in environment.values() for key, value in reported.items()})
    holders = {
        (key, value): tuple(b for b, reported in environment.items() if reported.get(key) == value)
        for key, value in pairs
    }
    return tuple(
        (key, value, () if len(holders[key, value]) == len(environment) else holders[key, value])
        for key, value in pairs
    )


def _ordered(report: Report) -> Report:
    new = report.new
    order = sorted(
        report.findings,
        key=lambda f: (
            f.fingerprint not in new,
            -_SYMPTOMS.index(f.divergence.symptom),
            -f.hits,
            f.fingerprint,
        ),
    )
    return replace(report, findings=tuple(order))


def _count(number: int, noun: str) -> str:
    return counted(number, noun) if number else f"No {noun}s"
