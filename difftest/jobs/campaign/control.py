"""Control cases, of backends that never agreed: whether a backend works at all.

A backend may have met nothing but known faults by chance, or it may be broken. So it runs one of the
campaign's own cases once more, in its plain form, and that comparison counts like any other. A plain form
may still have what shows a known fault, such as a model with a single buffer, so that the one of which the
ledger has the fewest entries is chosen.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import click

from difftest.campaign.campaign import Campaign
from difftest.campaign.recording import Progress
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber, Series
from difftest.cases.resets import plain
from difftest.records.completeness import never_agrees
from difftest.records.resume import CampaignRecord
from difftest.reduce.measure import measure

MOST_CASES = 20
"""The control is one of so many cases."""


def run_controls(
    campaign: Campaign,
    cases: Sequence[tuple[int, Case]],
    recorded: CampaignRecord,
    never_worked: Mapping[str, str],
    entries: Callable[[str, Case], int],
) -> Iterator[Progress]:
    """Runs a control for each backend that never agreed, out of the cases that it ran, with their numbers.

    There is none where nothing of a backend was compared, nor where a fault of the ledger explains every run
    of it (`never_worked`). `entries` counts the entries of the ledger about a backend and a case. The control
    has the fewest, and of these cases it is the simplest.
    """
    by_case: dict[int, list[str]] = {}
    forms = {index: plain(case) for index, case in cases[:MOST_CASES]}
    for name, counts in recorded.comparisons.backends().items():
        if name in campaign.backends and counts.completed and never_agrees(counts, never_worked):
            able = [index for index, form in forms.items() if not campaign.backends[name].unsupported(form)]
            if able:
                chosen = min((entries(name, forms[i]), measure(forms[i]), i) for i in able)[-1]
                by_case.setdefault(chosen, []).append(name)
    for index, names in by_case.items():
        alone = dataclasses.replace(campaign, backends={name: campaign.backends[name] for name in names})
        number = CaseNumber(index, Series.CONTROL)
        click.echo(f"{', '.join(names)} never agreed: running control case {number}", err=True)
        yield from run(alone, [(number.recorded, forms[index])], recorded)
