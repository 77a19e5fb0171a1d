"""What a campaign prints at its end: counts, the findings that need somebody, and how many are known."""

from collections.abc import Iterable, Mapping, Sequence

import click
import msgspec

from difftest.campaign.localise import place
from difftest.findings import titles
from difftest.findings.causes import Cause, causes
from difftest.findings.ledger import Entry
from difftest.findings.standing import Standing, grouped, headline
from difftest.ground.clock import utc_today
from difftest.ground.counted import counted
from difftest.jobs.campaign.tally import Tally
from difftest.jobs.screen.terminal import Style, print_line
from difftest.judge.fingerprint import DIGEST_LENGTH
from difftest.records.completeness import lines
from difftest.records.conclusion import Conclusion
from difftest.records.finding import Finding

MOST_SHOWN = 20
"""How many of the findings that need somebody are printed; the page has all."""


def print_ending(
    tally: Tally, files: Iterable[str], upstream: Mapping[str, Entry], conclusion: Conclusion
) -> None:
    """Prints what a campaign came to; `upstream` are the ledger's entries by fingerprint."""
    if before_all := conclusion.headline(""):
        print_line((Style.ALARM, before_all))
    before = f", after {counted(tally.resumed, 'case')} recorded earlier" if tally.resumed else ""
    current = _listed(tally, upstream)
    head = f"{tally.cases_in_words}, {counted(tally.runs, 'run')} in {tally.seconds:.0f} s{before}"
    nothing = not tally.findings and not any(side.completed for side in tally.comparisons.sides.values())
    click.echo(f"{head}: {'nothing was compared' if nothing else _counted(tally, current)}")
    for line in lines(tally.comparisons):
        click.echo(f"  {line}")
    if unfinished := tally.unfinished_in_words:
        click.echo(f"  unfinished: {unfinished}; the same command continues with them")
    for sentence in conclusion.excused:
        click.echo(f"  {sentence}")
    for reason in conclusion.incomplete:
        click.echo(f"  {'missing' if reason in tally.absent else 'not enough:'} {reason}")
    if tally.findings:
        _print_findings(tally, current, conclusion)
    for problem in dict.fromkeys(tally.trouble):
        click.echo(f"  infrastructure: {problem}")
    if warning := tally.ledger.warning(utc_today()):
        click.echo(f"  {warning}")
    click.echo(f"reports: {', '.join(files)}")


def _listed(tally: Tally, upstream: Mapping[str, Entry]) -> list[Finding]:
    """The campaign's findings with what the ledger says of each."""
    return [
        msgspec.structs.replace(finding, upstream=upstream[name].upstream if name in upstream else "")
        for name, finding in sorted(tally.findings.items())
    ]


def _counted(tally: Tally, current: Sequence[Finding]) -> str:
    """How many findings there are, with how many causes: what follows has a line for each cause.

    Whether a finding is known is for the ledger to say, in the lines below.
    """
    count, before = len(tally.new) + len(tally.recurring), len(tally.recurring)
    if not count:
        return "no findings"
    several = len(causes(current))
    with_causes = f" with {counted(several, 'cause')}" if several < count else ""
    return f"{counted(count, 'finding')}{with_causes}" + (f", {before} recorded before" if before else "")


def _print_findings(tally: Tally, current: Sequence[Finding], conclusion: Conclusion) -> None:
    """What to do, a line for each cause that needs somebody, and a summary of the others."""
    groups = grouped(causes(current))
    unknown = groups[Standing.UNKNOWN]
    good = not (unknown or conclusion.opening)
    print_line((Style.GOOD if good else Style.ALARM, headline(groups, alone=not conclusion.opening)))
    for cause in unknown[:MOST_SHOWN]:
        _print_cause(cause, new=any(finding.fingerprint in tally.new for finding in cause.findings))
    if len(unknown) > MOST_SHOWN:
        click.echo(f"  and {len(unknown) - MOST_SHOWN} more, on the page")
    counts = [f"{len(groups[standing])} {standing}" for standing in tuple(Standing)[1:] if groups[standing]]
    if counts:
        print_line(
            (Style.SOFT, f"  beside them: {'; '.join(counts)}" if unknown else f"  {'; '.join(counts)}")
        )
    if ready := unknown or groups[Standing.UNDERSTOOD]:
        first, which = digest(ready[0]), "the first" if unknown else "the first that is not reported"
        print_line((Style.SOFT, f"  difftest show {first}  has the evidence of {which}"))
        print_line((Style.SOFT, f"  difftest file {first}  writes an issue draft; nothing is posted"))


def _print_cause(cause: Cause, *, new: bool) -> None:
    """One line for the findings with one cause."""
    from workers.backends import titles as titles_of_backends

    called, shown = titles_of_backends(), cause.finding.divergence
    title = titles.shared(titles.title(cause.finding, called), cause.backends, called)
    cases = f"  {counted(cause.hits, 'case')}{'' if new else ', seen before'}"
    symptom = (Style.ALARM if new else Style.KNOWN, f"{shown.symptom:<10}")
    at = f"; first wrong at {wrong}" if (wrong := place(cause.finding.located)) else ""
    print_line("  ", symptom, "  ", (Style.STRONG, digest(cause)), f"  {title}{at}", last=cases)


def digest(cause: Cause) -> str:
    """The end of the fingerprint of a cause's first finding, by which commands find it."""
    return cause.finding.fingerprint[-DIGEST_LENGTH:]
