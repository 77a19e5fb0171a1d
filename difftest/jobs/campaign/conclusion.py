"""How a campaign's command ends: the reports, the printed result or JSON object, and the exit status."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from difftest.findings.jumps import jumps
from difftest.findings.ledger import Entry
from difftest.ground.clock import utc_today
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.ask.request import Request
from difftest.jobs.campaign.night_before import nights_before
from difftest.jobs.campaign.printed_summary import print_ending
from difftest.jobs.campaign.reachable_entries import reachable_entries
from difftest.jobs.campaign.storage import Output
from difftest.jobs.campaign.tally import Tally, known_upstream
from difftest.jobs.campaign.unusual import unusual
from difftest.jobs.screen.output import print_json
from difftest.judge.outcome import Symptom
from difftest.records import announced
from difftest.records.completeness import described
from difftest.records.conclusion import Conclusion, concluded
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding


def conclude(request: Request, output: Output, tally: Tally, entries: Mapping[str, Any] | None = None) -> int:
    """Writes the reports, prints the result and returns the exit status.

    What the ledger knows counts as not new. The JSON object has `entries` too. The new findings are announced
    hereby. `InfrastructureError` when too little was compared, `UsageError` when no backend supports any
    case, and `StoppedError` when the command was stopped; the findings then remain to be announced.
    """
    upstream = known_upstream(output.corpus, tally)
    unknown = _keep_upstream(output.corpus, tally, upstream)
    conclusion = _conclusion(request, output.corpus, tally, upstream)
    incomplete = conclusion.incomplete
    files = _write_reports(request, output, tally, conclusion)
    if request.as_json:
        summary = _summary(request, output, tally, upstream, unknown) | dict(entries or {})
        print_json(summary | conclusion.described())
    else:
        print_ending(tally, files, upstream, conclusion)
    if tally.stopped:
        raise tally.stopped
    _require_support(tally)
    if incomplete:
        raise InfrastructureError("; ".join(incomplete))
    announced.mark_announced(output.corpus, tally.new, utc_today())
    failures = {"new": unknown, "any": tally.findings, "infra": tally.trouble, "never": ()}
    return int(any(failures[word] for word in request.fail_on))


def _conclusion(request: Request, corpus: Corpus, tally: Tally, upstream: Mapping[str, Entry]) -> Conclusion:
    """What the campaign's comparisons mean, by the request's limits, the ledger and earlier nights."""
    never_worked = tally.never_worked()
    issues = {name: entry.upstream for name, entry in upstream.items()}
    before = nights_before(corpus, tally.campaign)
    return concluded(
        tally.comparisons,
        request,
        never_worked,
        more=(*jumps(tally.comparisons, before, issues, never_worked), *tally.absent),
        unusual=unusual(request, tally.ledger),
    )


def _keep_upstream(corpus: Corpus, tally: Tally, upstream: Mapping[str, Entry]) -> set[str]:
    """Keeps with each finding its entry's issue; returns the fingerprints of those that count as new.

    A finding whose entry no longer counts is new again. A hang that came back in none of its repetitions is
    not: a busy machine causes those too. Nor is a difference of what torch leaves undefined.
    """
    for name, finding in tally.findings.items():
        issue = upstream[name].upstream if name in upstream else ""
        if finding.upstream == issue:
            continue
        again = {"new_in": (tally.campaign, 0), "announced": ""} if not issue else {}
        amended = corpus.amend(name, upstream=issue, **again)
        if again:
            tally.count_as_new((amended,))
    unknown = tally.new.keys() - upstream.keys()
    return unknown - {name for name, finding in tally.new.items() if _is_no_fault(finding)}


def _is_no_fault(finding: Finding) -> bool:
    hung_once = finding.divergence.symptom is Symptom.HANG and not finding.stable[0]
    return hung_once or finding.divergence.symptom is Symptom.UNDEFINED


def _write_reports(request: Request, output: Output, tally: Tally, conclusion: Conclusion) -> list[str]:
    """Writes the reports; returns their names for the user."""
    from reports.write import DEFAULT_FORMATS, write
    from workers.backends import titles

    formats = (*DEFAULT_FORMATS, *request.formats)
    files = write(
        output.folder,
        formats,
        tally.campaign,
        conclusion,
        titles(),
        entries=reachable_entries(),
        ledger=tally.ledger,
    )
    return [f"{output.name}/{file.relative_to(output.folder)}" for file in files]


def _require_support(tally: Tally) -> None:
    """`UsageError` when no backend supports any of the cases."""
    sides = tally.comparisons.sides.values()
    if any(counts.unsupported for counts in sides) and not any(counts.requested for counts in sides):
        msg = (
            f"nothing was compared: no backend supports any of the {tally.cases + tally.resumed} cases "
            "(`difftest support` shows which backend supports which path)"
        )
        raise UsageError(msg)


def _summary(
    request: Request, output: Output, tally: Tally, upstream: Mapping[str, Entry], unknown: AbstractSet[str]
) -> dict[str, Any]:
    """The JSON object: `new` are the findings that nobody knows and no campaign had, `known` all others."""
    return {
        "seed": request.seed,
        "cases": tally.cases,
        "programs": tally.programs,
        "resumed": tally.resumed,
        "runs": tally.runs,
        "absent": tally.absent,
        "comparisons": described(tally.comparisons),
        "new": sorted(unknown),
        "known": sorted(tally.findings.keys() - unknown),
        "unfinished": {what: number for what, number in tally.unfinished.items() if number},
        "trouble": tally.trouble,
        "damaged": sum(output.damaged),
        "stopped": str(tally.stopped or ""),
        "seconds": round(tally.seconds, 1),
        "out": output.name,
        "upstream": {name: entry.upstream for name, entry in sorted(upstream.items())},
    }
