"""Whether a campaign's own judge is in doubt: what the canary showed, and how far off correct runs are."""

import statistics

from difftest.ground.counted import counted
from difftest.judge.canary import NOTHING_ROUNDS, NOTICED
from difftest.records.comparisons import Comparisons

LEAST_RUNS = 20
"""Of fewer agreeing runs the median says little, and there need not be a canary among them."""

USUAL_RATIOS = (0.1, 5.0)
"""Between what the median of the greatest errors of agreeing runs must lie, in units of the rounding noise.

docs/accuracy.md has what was measured.
"""

IN_DOUBT = "the judge itself is in doubt"


def doubts(comparisons: Comparisons) -> list[str]:
    """Why the campaign's verdicts may mean nothing, in words; empty where nothing speaks against them."""
    return [f"{IN_DOUBT}: {words}" for words in (*_canaries(comparisons), *_median(comparisons))]


def median_ratio(comparisons: Comparisons) -> float | None:
    """The median of the greatest errors of runs that agree; None where there is none."""
    return statistics.median(comparisons.ratios) if comparisons.ratios else None


def _canaries(comparisons: Comparisons) -> list[str]:
    """What the canary showed of wrong verdicts, each with a backend and its number of runs."""
    shown = {
        (backend, words): number
        for backend, counts in comparisons.backends().items()
        for words, number in counts.canaries.items()
    }
    wrong = {key: number for key, number in shown.items() if key[1] not in {NOTICED, NOTHING_ROUNDS}}
    if wrong:
        (backend, words), number = max(wrong.items(), key=lambda item: item[1])
        total = sum(wrong.values())
        runs = f"in {counted(number, 'run')} of {backend}"
        more = f", and {total - number} more" if total > number else ""
        return [f"its canary was {words} ({runs}{more})"]
    if len(comparisons.ratios) >= LEAST_RUNS and not any(words == NOTICED for _, words in shown):
        return [f"there was no canary in {len(comparisons.ratios)} runs that agree"]
    return []


def _median(comparisons: Comparisons) -> list[str]:
    least, most = USUAL_RATIOS
    median = median_ratio(comparisons)
    if median is None or len(comparisons.ratios) < LEAST_RUNS or least <= median <= most:
        return []
    runs = f"the greatest errors of {len(comparisons.ratios)} agreeing runs have a median of {median:.2g}"
    return [f"{runs} times the rounding noise, usually {least:g} to {most:g}"]
