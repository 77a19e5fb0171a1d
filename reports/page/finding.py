"""One line of findings as the page shows it: a title and facts in the reader's words, the 2 x 2, commands."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from difftest.cases.case import Case
from difftest.findings import titles
from difftest.findings.ablate import CHANGES, DISAPPEARS, STAYS
from difftest.findings.causes import Cause
from difftest.findings.faults import SCRIPTS, reported_at
from difftest.findings.standing import Standing, in_words, of_cause
from difftest.ground.counted import counted
from difftest.judge.divergence import Divergence
from difftest.records.corpus import ARTIFACTS, CORPUS, DRAFT, FINDING, OUTPUT, REDUCED, SCRIPT
from difftest.records.evidence import (
    CORRECT_SIBLINGS,
    DECIDED_BY,
    DECIDED_ELSEWHERE,
    TWO_BY_TWO,
    WRONG_SIBLINGS,
    answer,
    label,
)
from difftest.records.finding import Finding
from reports import cells, tables
from reports.draft.reportable import tracker
from reports.page.curves import CurveDrawing, drawing
from reports.page.grid import of_pieces
from reports.page.head import SHOWN_PACKAGES
from reports.page.history import SEEN
from reports.report import Report
from reports.tracebacks import last_line, without_own_frames

GREATEST_TEXT = 20_000
"""The most characters of a detail or a log on the page; `finding.json` has all of it."""

UNDECIDED_MEANS = "undecided: it did not run, failed differently or gave no verdict"

TEXTS = 800_000
"""The most characters of all details and logs; of many findings, each has a smaller share."""

LEAST_TEXT = 1_000
"""Every finding has as many characters of its detail and of its log."""

ANSWERS = (DISAPPEARS, STAYS, CHANGES)
"""The answers of ablations on the page; why others are undecided is in `finding.json`."""

NOT_RUN = "not run"
FILES = {
    SCRIPT: "reproducer",
    DRAFT: "issue draft",
    REDUCED: "reduced case",
    "case.json": "case",
    FINDING: "finding.json",
    OUTPUT: "the reproducer's output",
    ARTIFACTS: "compiled graphs",
}
"""What lies in a finding's folder, by the words of its link; what a reader wants first comes first."""

COMMANDS = {
    "file": "run every step below up to the issue draft",
    "replay": "run its case again in fresh processes",
    "minimize": "find its smallest case",
    "reproducer": "write a script without difftest, and run it",
    "draft": "write the issue in the tracker's form",
}
TAGGED = frozenset({Standing.FIXED, Standing.UNSTABLE, Standing.LEFT_OPEN})
"""The standings that a line of the page says itself, as its group does not."""

MOST_LAYERS = 8
"""How many kinds of layers of a model are named."""


OWNERS = {"pytorch": "pytorch/pytorch", "xla": "pytorch/xla", "openxla": "openxla/xla"}
"""Whose tracker a finding belongs to by the evidence."""


class OutcomeCell(NamedTuple):
    """One cell of the 2 x 2: the class that colours it, its sign and its words."""

    kind: str
    sign: str
    words: str


def shown_on_page(report: Report, cause: Cause, arbiter: str, nights: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows of the findings with one cause: the first of them, and what all have.

    `arbiter` is the comparison with the other side's error, or empty. `nights` has by fingerprint the marks
    of the nights in which it was seen (`reports.page.history.marks`).
    """
    finding, kept = cause.finding, report.of(cause.finding)
    divergence = finding.divergence
    most = max(LEAST_TEXT, min(GREATEST_TEXT, TEXTS // (2 * max(1, len(report.causes)))))
    folder = f"{CORPUS}/{quote(finding.fingerprint, safe='')}"
    return {
        "finding": finding,
        "others": cause.others,
        "title": titles.shared(kept.title, cause.backends, report.called),
        "new": report.has_new(cause),
        "standing": in_words(cause) if of_cause(cause) in TAGGED else "",
        "summary": list(_summary(report, cause, kept.case, nights)),
        "facts": {name: value for name, value in facts(report, cause, arbiter).items() if value},
        "two_by_two": (runs := two_by_two(finding)),
        "other_side": other_side(divergence),
        "undecided": UNDECIDED_MEANS if any(cell.kind == "none" for cell in runs.values()) else "",
        "grid": of_pieces(finding, kept.mesh),
        "drawing": _drawing(report, finding),
        "backend": report.spoken(divergence.backend),
        "detail": cells.cut(divergence.detail, most, "see finding.json"),
        "log": cells.cut(without_own_frames(divergence.log), most, "see finding.json"),
        "links": [(words, f"{folder}/{name}") for name, words in FILES.items() if name in kept.files],
        "issue": reported_at(finding.upstream),
        "commands": next_commands(report, finding),
        "hits": cause.hits,
    }


def _summary(report: Report, cause: Cause, case: Case | None, nights: Mapping[str, str]) -> Iterator[str]:
    """The facts beside the title, as short texts."""
    finding = cause.finding
    back, repeats = finding.repeats
    yield ", ".join(map(report.spoken, cause.backends))
    if case:
        yield str(case.layout.mesh)
        yield case.dtype
        yield _model(case)
    yield str(finding.divergence.stage)
    yield f"reproduced {back} of {repeats}" if repeats else "not repeated"
    yield counted(cause.hits, "case")
    if marks := _nights(cause, nights):
        yield f"nights {marks}"


def _nights(cause: Cause, nights: Mapping[str, str]) -> str:
    """The nights in which any of a cause's findings was seen."""
    own = [nights[finding.fingerprint] for finding in cause.findings if finding.fingerprint in nights]
    return "".join(max(marks, key=lambda mark: mark == SEEN) for marks in zip(*own, strict=True))


def _model(case: Case) -> str:
    """The kinds of a model's layers in order, or the operators of a program."""
    names = case.model.titles
    more = f" and {len(names) - MOST_LAYERS} more" if len(names) > MOST_LAYERS else ""
    return (" → " if case.model.is_program else ", ").join(names[:MOST_LAYERS]) + more


def facts(report: Report, cause: Cause, arbiter: str = "") -> dict[str, str]:
    """Facts by their label; an empty value stands for a fact that is not there."""
    finding, case = cause.finding, report.of(cause.finding).case
    divergence, (returned, times) = finding.divergence, finding.returned
    ratio = divergence.ratio
    triaged = f"{finding.status}, {returned} of {times}, {cells.moment(finding.checked)}"
    moments = [cells.moment(moment) for moment in (finding.first_seen, finding.last_seen) if moment]
    siblings = [report.spoken(name) for name in cause.backends if name != divergence.backend]
    also_wrong = _evidence(report, WRONG_SIBLINGS, finding) if WRONG_SIBLINGS in finding.evidence else ""
    return {
        "blame": finding.blame,
        "known upstream": reported_at(finding.upstream),
        "shown by the script": finding.upstream if finding.upstream.startswith(SCRIPTS) else "",
        "fingerprint": finding.fingerprint,
        "of the same cause": ", ".join(cause.others),
        "backend": f"{report.spoken(divergence.backend)} ({divergence.backend})",
        "also on": "" if ", ".join(siblings) == also_wrong else ", ".join(siblings),
        "operators": ", ".join(cause.operators),
        "path": ", ".join(name.replace("_", " ") for name in tables.paths(finding)),
        "mesh": str(case.layout.mesh) if case else "",
        "model": _model(case) if case else "",
        "training": _training(case) if case else "",
        "where": _where(finding),
        "in your code": last_line(divergence.log, case.model.own.files) if case and case.model.own else "",
        "greatest error": "" if ratio is None else f"{cells.shown(ratio)} x the rounding noise",
        "beside the other side": arbiter,
        "reproduced": "{} of {}".format(*finding.stable) if finding.stable[1] else "",
        "triage": triaged if finding.status else "",
        "necessary": "; ".join(finding.conditions),
        "first wrong at": "; ".join(finding.located),
        **{f"{answer} when": _changes(finding, answer) for answer in ANSWERS},
        "seen": " to ".join(dict.fromkeys(moments)),
        "first seen with": ", ".join(
            f"{name} {finding.environment[name]}" for name in SHOWN_PACKAGES if name in finding.environment
        ),
        "owner": OWNERS[tracker(finding)],
        **{label(name): _evidence(report, name, finding) for name in finding.evidence},
    }


def _evidence(report: Report, name: str, finding: Finding) -> str:
    """The evidence under a name, with backends as users call them; empty for the 2 x 2."""
    text = finding.evidence[name]
    if name in (DECIDED_BY, DECIDED_ELSEWHERE):
        # `spelling.optimizer_before=True`: the group says nothing to a reader
        return ", ".join(option.partition(".")[2] or option for option in text.split(", "))
    if name in (CORRECT_SIBLINGS, WRONG_SIBLINGS):
        return ", ".join(report.spoken(backend) for backend in text.split(", "))
    return "" if name in TWO_BY_TWO else text


def _training(case: Case) -> str:
    """What is trained how, in a line."""
    training = case.training
    steps = f"{training.optimizer}, {counted(training.steps, 'step')}, "
    return f"{case.dtype}, {'' if case.model.is_program else steps}numbers: {case.data.regime}"


def _where(finding: Finding) -> str:
    divergence = finding.divergence
    tensor = f", {divergence.tensor}" if divergence.tensor else ""
    return f"step {divergence.step}, {divergence.stage}{tensor}"


def _changes(finding: Finding, kind: str) -> str:
    """What was changed in the case by the ablations whose answer is of this `kind`."""
    return "; ".join(name for name, text in finding.ablations.items() if text.startswith(kind))


def _drawing(report: Report, finding: Finding) -> CurveDrawing | None:
    """The loss curves of its case; None for a finding that is not about numbers."""
    if finding.divergence.ratio is None:
        return None
    return drawing(report, report.curves.get(finding.case, ()), finding.divergence.backend)


def two_by_two(finding: Finding) -> dict[str, OutcomeCell]:
    """The cells of the 2 x 2 of sides and layouts by evidence name; empty where none of it was run."""
    if not any(name in finding.evidence for name in TWO_BY_TWO):
        return {}
    return {name: _cell(answer(finding.evidence.get(name, NOT_RUN))) for name in TWO_BY_TWO}


def other_side(shown: Divergence) -> str:
    """The side that a finding's backend is compared with."""
    return "the xla side" if shown.side == "torch" else "the torch side"


def _cell(words: str) -> OutcomeCell:
    kind, sign = {"agrees": ("agree", "✓"), "diverges": ("diverge", "✗")}.get(words, ("none", "?"))
    return OutcomeCell(kind, sign, words)


def next_commands(report: Report, finding: Finding) -> list[tuple[str, str]]:
    """The next commands about a finding, with what each does; no draft is made of one that is reported."""
    target = f"{report.folder or '.'}/{CORPUS}/{finding.fingerprint}"
    drafts = ("file", "draft") if reported_at(finding.upstream) else ()
    return [(f"difftest {name} {target}", about) for name, about in COMMANDS.items() if name not in drafts]
