"""What the night before compared and this one does not: a backend or a path that has gone missing."""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np

from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign.tally import Tally
from difftest.records.comparisons import COUNTED, Comparisons, Counts
from difftest.records.completeness import why
from difftest.records.corpus import Corpus
from difftest.records.definition import named_seed
from difftest.records.index import parts

LEAST_EXPECTED = 5.0
"""How many cases must be expected for none to be no accident: of 5, chance leaves out all once in 150 nights.

This only counts where no generated case asked for any.
"""


MOST_NIGHTS = 7
"""How many nights say what is usual."""


@dataclass(slots=True, kw_only=True)
class Before:
    """What an earlier night compared: its day as a seed, the number of its cases, and the counts."""

    seed: int
    cases: int = 0
    comparisons: Comparisons = field(default_factory=Comparisons)


def night_before(corpus: Corpus, seed: int) -> Before | None:
    """The last night in the corpus before that of `seed`; None where there is none."""
    nights = _nights(corpus)
    earlier = [night for night in nights.values() if night < seed]
    if not earlier:
        return None
    before = Before(seed=max(earlier))
    for file in (file for file, night in nights.items() if night == before.seed):
        _add(before, file)
    return before


def nights_before(corpus: Corpus, campaign: str) -> Comparisons:
    """What the last nights of the corpus compared, those before the campaign's own if it is a night."""
    own, nights = named_seed(campaign), _nights(corpus)
    is_night = own is not None and _is_day(own)
    earlier = (
        {file: night for file, night in nights.items() if night < own or not is_night} if own else nights
    )
    earlier.pop(corpus.lines(campaign), None)
    last = set(sorted(set(earlier.values()))[-MOST_NIGHTS:])
    before = Before(seed=max(last, default=0))
    for file in (file for file, night in earlier.items() if night in last):
        _add(before, file)
    return before.comparisons


def _nights(corpus: Corpus) -> dict[Path, int]:
    """The files of the nights' lines with their days as seeds."""
    files = {file: named_seed(file.stem) for file in corpus.files_of_lines()}
    return {file: night for file, night in files.items() if night is not None and _is_day(night)}


def absent(before: Before, tally: Tally, request: CampaignRequest) -> list[str]:
    """Every backend and path that `before` compared and this night did not, with the reason.

    What the command was told to leave out is not missed, and neither is what chance may have left out.
    """
    growth = (tally.cases + tally.resumed) / max(before.cases, 1)
    then, now = before.comparisons, tally.comparisons
    kinds = (
        ("backend", then.backends(), now.backends(), request.backends),
        ("path", then.paths, now.paths, request.paths),
    )
    return [
        f"{kind} {name}: compared {count.completed} times on {before.seed}, and not once now; {why(own)}"
        for kind, counted, counts, chosen in kinds
        for name, count in counted.items()
        if (not chosen or name in chosen) and count.completed
        if not (own := counts.get(name, Counts())).completed
        if own.requested or growth * _cases(then, name) >= LEAST_EXPECTED
    ]


def _cases(comparisons: Comparisons, name: str) -> int:
    """In how many cases a backend, or any one backend on a path, was compared."""
    of_backend = comparisons.backends().get(name, Counts()).completed
    on_path = (counts.completed for place, counts in comparisons.places.items() if place.path == name)
    return of_backend or max(on_path, default=0)


def _add(before: Before, file: Path) -> None:
    for part in parts(file):
        columns = part.columns({"index", *COUNTED})
        index = columns.numbers("index")
        before.cases += len(np.unique(index))
        before.comparisons.add(columns)


def _is_day(seed: int) -> bool:
    try:
        datetime.strptime(str(seed), "%Y%m%d")  # noqa: DTZ007  only whether it is a day
    except ValueError:
        return False
    return True
