"""Control cases, of backends that never agreed: whether a backend works at all.

A backend may have met nothing but known faults by chance, or it may be broken. So it runs one of the
campaign's own cases once more, in its plain form, and that comparison counts like any other. A plain form
may still have what shows a known fault, such as a model with a single buffer, so that the one of which the
ledger has the fewest entries is chosen.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import click

from difftest.campaign.campaign import Campaign
from difftest.campaign.case_run import CaseResult
from difftest.campaign.recording import Progress
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber, Series
from difftest.cases.resets import plain
from difftest.cases.twins import is_twin
from difftest.records.completeness import never_agrees
from difftest.records.resume import CampaignRecord
from difftest.reduce.measure import measure

MOST_CASES = 20
"""The control is one of so many cases."""

CasesOfBackends: TypeAlias = defaultdict[str, dict[int, Case]]
"""Of each backend the first cases on which it was compared, by their numbers."""


def remember(cases: CasesOfBackends, result: CaseResult) -> None:
    """Adds a case to those of the backends that need more of them.

    A night begins with programs of operators, which some backends cannot run, so each has cases of its own.
    """
    for name in () if is_twin(result.case) else result.comparisons:
        if len(cases[name]) < MOST_CASES:
            cases[name][result.index] = result.case


def run_controls(
    campaign: Campaign,
    cases: CasesOfBackends,
    recorded: CampaignRecord,
    never_worked: Mapping[str, str],
    entries: Callable[[str, Case], int],
) -> Iterator[Progress]:
    """Runs a control for each backend that never agreed, one of its own `cases`.

    There is none where nothing of a backend was compared, nor where a fault of the ledger explains every run
    of it (`never_worked`). `entries` counts the entries of the ledger about a backend and a case. The control
    has the fewest, and of these cases it is the simplest.
    """
    by_case: dict[int, list[str]] = {}
    forms = {index: plain(case) for its in cases.values() for index, case in its.items()}
    for name, counts in recorded.comparisons.backends().items():
        if name in campaign.backends and counts.completed and never_agrees(counts, never_worked):
            able = [index for index in cases[name] if not campaign.backends[name].unsupported(forms[index])]
            if able:
                chosen = min((entries(name, forms[i]), measure(forms[i]), i) for i in able)[-1]
                by_case.setdefault(chosen, []).append(name)
    for index, names in by_case.items():
        alone = dataclasses.replace(campaign, backends={name: campaign.backends[name] for name in names})
        number = CaseNumber(index, Series.CONTROL)
        click.echo(f"{', '.join(names)} never agreed: running control case {number}", err=True)
        yield from run(alone, [(number.recorded, forms[index])], recorded)
