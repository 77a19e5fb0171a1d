"""One finding as the page shows it: facts in the reader's words, and the 2 x 2 that its blame rests on."""

from typing import Any
from urllib.parse import quote

from difftest.findings.ablate import CHANGES, DISAPPEARS, STAYS
from difftest.findings.causes import Cause
from difftest.records.corpus import CORPUS
from difftest.records.evidence import TWO_BY_TWO, answer, label
from difftest.records.finding import Finding
from reports import cells, tables

GREATEST_TEXT = 20_000
"""The most characters of a detail or a log on the page; `finding.json` has all of it."""

ANSWERS = (DISAPPEARS, STAYS, CHANGES)
"""The answers of ablations on the page; why others are undecided is in `finding.json`."""

UNKNOWN = "not run"


def shown_on_page(cause: Cause, arbiter: str, *, new: bool) -> dict[str, Any]:
    """What `report.html` shows of the findings with one cause: the first of them, and what all have.

    `arbiter` is the comparison with the other side's error, or empty.
    """
    finding = cause.finding
    divergence = finding.divergence
    facts = _facts(finding, arbiter) | {
        "operators": ", ".join(cause.operators),
        "backends": ", ".join(cause.backends) if len(cause.backends) > 1 else "",
        "findings of this cause": ", ".join((finding.fingerprint, *cause.others)) if cause.others else "",
        "cases": cells.shown(cause.hits),
    }
    return {
        "finding": finding,
        "new": new,
        "paths": tables.paths(finding),
        "facts": {name: value for name, value in facts.items() if value},
        "two_by_two": _two_by_two(finding),
        "detail": cells.cut(divergence.detail, GREATEST_TEXT, "see finding.json"),
        "log": cells.cut(divergence.log, GREATEST_TEXT, "see finding.json"),
        "folder": f"{CORPUS}/{quote(finding.fingerprint, safe='')}",
    }


def _facts(finding: Finding, arbiter: str) -> dict[str, str]:
    """Facts by their label; an empty value stands for a fact that is not there."""
    divergence, (back, repeats), (returned, times) = finding.divergence, finding.stable, finding.returned
    tensor = f", {divergence.tensor}" if divergence.tensor else ""
    ratio = divergence.ratio
    triaged = f"{finding.status}, {returned} of {times}, {cells.moment(finding.checked)}"
    moments = [cells.moment(moment) for moment in (finding.first_seen, finding.last_seen) if moment]
    return {
        "blame": finding.blame,
        "known upstream": finding.upstream,
        "cases": cells.shown(finding.hits),
        "where": f"step {divergence.step}, {divergence.stage}{tensor}",
        "greatest error": "" if ratio is None else f"{cells.shown(ratio)} x the rounding noise",
        "beside the other side": arbiter,
        "reproduced": f"{back} of {repeats}" if repeats else "",
        "triage": triaged if finding.status else "",
        "necessary": "; ".join(finding.conditions),
        "first wrong at": "; ".join(finding.located),
        **{f"{one} when": _changes(finding, one) for one in ANSWERS},
        "seen": " to ".join(dict.fromkeys(moments)),
        **{label(name): text for name, text in finding.evidence.items() if name not in TWO_BY_TWO},
    }


def _changes(finding: Finding, kind: str) -> str:
    """What was changed in the case by the ablations whose answer is of this `kind`."""
    return "; ".join(name for name, text in finding.ablations.items() if text.startswith(kind))


def _two_by_two(finding: Finding) -> dict[str, str]:
    """The cells of the 2 x 2 of sides and layouts by evidence name; empty where none of it was run."""
    if not any(name in finding.evidence for name in TWO_BY_TWO):
        return {}
    return {name: answer(finding.evidence.get(name, UNKNOWN)) for name in TWO_BY_TWO}
