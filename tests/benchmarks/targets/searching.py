"""How much earlier a pair of choices, or a case for a planted fault, appears because cases come from a pool.

Two sequences of the same seed are compared: the cases as a campaign runs them, and the first candidate of
each pool, which is what would run without a choice. Cases of a path with a schedule are in both. A planted
fault shows in no case before the first one with the pair it needs, so this needs no runs. It does not say
that a run of that case finds the fault.
"""

import functools
import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from benchmarks.targets import Figure
from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber
from difftest.jobs.proof.planted_campaigns import chosen_defects
from generators.cases import case_at, pool_at, spelling_stream
from generators.options import spelled
from generators.paths import chosen, load
from generators.sequence import taking_turns
from workers import backends

Draw: TypeAlias = Callable[[int, int], Case]
"""The case of a seed and an index."""

SEEDS = range(25)
MOST_CASES = 400
"""A pair that no case before this one has counts as if this one had it."""

MOST_RANKS = 8

FEWER_SEEDS, FEWER_CASES = range(12), 100
"""For planted faults."""

RARE_CASES = 5


def _bfloat16_relu(case: Case) -> bool:
    return case.dtype == "bfloat16" and b'"relu"' in msgspec.json.encode(case.model)


def _momentum_three_steps(case: Case) -> bool:
    return case.training.optimizer == "momentum" and case.training.steps >= 3


PAIRS: dict[str, Callable[[Case], bool]] = {
    "bfloat16 with relu": _bfloat16_relu,
    "momentum with 3 or more steps": _momentum_three_steps,
}


def figures() -> Iterator[Figure]:
    """For each pair, the median number of cases without a choice over the median with it.

    For planted faults the geometric mean of that ratio, of means over fewer seeds.
    """
    for name, has in PAIRS.items():
        without, with_choice = (
            statistics.median(_cases_until(has, draw, seed) for seed in SEEDS)
            for draw in (_without_choice, case_at)
        )
        words = f"{without:g} cases without a choice / {with_choice:g} with, median of {len(SEEDS)} seeds"
        yield Figure(f"{name}: {words}", without / with_choice, 1.5)
    rare, ratio = planted_faults(case_at)
    name = f"{rare} planted faults that take {RARE_CASES} cases or more: cases without a choice / with"
    yield Figure(f"{name}, mean of {len(FEWER_SEEDS)} seeds", ratio, 1.5)


def planted_faults(draw: Draw) -> tuple[int, float]:
    """The number of faults that the first cases do not show, and how much earlier `draw` has cases for them.

    A fault counts once for each backend that it is planted into. The second is the geometric mean of cases
    without a choice over cases that `draw` needs.
    """
    without, with_choice = _without(), _cases_until_shown(draw)
    rare = [place for place, cases in without.items() if cases >= RARE_CASES]
    return len(rare), statistics.geometric_mean(without[place] / with_choice[place] for place in rare)


@functools.cache
def _without() -> Mapping[tuple[str, str], float]:
    return _cases_until_shown(_without_choice)


def _cases_until_shown(draw: Draw) -> dict[tuple[str, str], float]:
    """By fault and backend, the mean number of cases up to the first that runs there and can show it."""
    shown = dict[tuple[str, str], list[int]]()
    for seed in FEWER_SEEDS:
        cases = [draw(seed, index) for index in range(FEWER_CASES)]
        for fault, backend in chosen_defects(""):
            unsupported = backends.load(backend).unsupported
            showing = (n for n, case in enumerate(cases, 1) if fault.reaches(case) and not unsupported(case))
            shown.setdefault((fault.name, backend), []).append(next(showing, FEWER_CASES))
    return {place: statistics.mean(numbers) for place, numbers in shown.items()}


def _cases_until(has: Callable[[Case], bool], draw: Draw, seed: int) -> int:
    """How many cases of `seed` there are up to the first that `has` the pair, with that one."""
    indices = itertools.islice(itertools.count(), MOST_CASES)
    return next((index + 1 for index in indices if has(draw(seed, index))), MOST_CASES)


def _without_choice(seed: int, index: int) -> Case:
    """The first candidate for the case at `index`."""
    at = CaseNumber.of(index)
    names, place = taking_turns(at.series, chosen(None)), at.index
    turn, position = divmod(place, len(names))
    path = names[position]
    if load(path).scheduled(seed=seed, index=turn, max_world_size=MOST_RANKS) is not None:
        return case_at(seed, index)
    first = pool_at(seed, place, path=path, max_world_size=MOST_RANKS)[0]
    return spelled(first, spelling_stream(seed, place))
