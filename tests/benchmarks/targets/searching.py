"""How much earlier a pair of choices appears because each case is chosen from a pool.

Two sequences of the same seed are compared: the cases as a campaign runs them, and the first candidate of
each pool, which is what would run without a choice. Cases of a path with a schedule are in both. A planted
fault shows in no case before the first one with the pair it needs, so this needs no runs. It does not say
that a run of that case finds the fault.
"""

import itertools
import statistics
from collections.abc import Callable, Iterator

import msgspec

from benchmarks.targets import Figure
from difftest.cases.case import Case
from generators.cases import case_at, pool_at
from generators.paths import chosen, load
from generators.sequence import place_of

SEEDS = range(25)
MOST_CASES = 400
"""A pair that no case before this one has counts as if this one had it."""

MOST_RANKS = 8


def _bfloat16_relu(case: Case) -> bool:
    return case.dtype == "bfloat16" and b'"relu"' in msgspec.json.encode(case.model)


def _momentum_three_steps(case: Case) -> bool:
    return case.training.optimizer == "momentum" and case.training.steps >= 3


PAIRS: dict[str, Callable[[Case], bool]] = {
    "bfloat16 with relu": _bfloat16_relu,
    "momentum with 3 or more steps": _momentum_three_steps,
}


def figures() -> Iterator[Figure]:
    """For each pair, the median number of cases without a choice over the median with it."""
    for name, has in PAIRS.items():
        without, with_choice = (
            statistics.median(_cases_until(has, draw, seed) for seed in SEEDS)
            for draw in (_without_choice, case_at)
        )
        words = f"{without:g} cases without a choice / {with_choice:g} with, median of {len(SEEDS)} seeds"
        yield Figure(f"{name}: {words}", without / with_choice, 1.5)


def _cases_until(has: Callable[[Case], bool], draw: Callable[[int, int], Case], seed: int) -> int:
    """How many cases of `seed` there are up to the first that `has` the pair, with that one."""
    indices = itertools.islice(itertools.count(), MOST_CASES)
    return next((index + 1 for index in indices if has(draw(seed, index))), MOST_CASES)


def _without_choice(seed: int, index: int) -> Case:
    """The first candidate for the case at `index`."""
    names, place = place_of(index, chosen(None))
    turn, position = divmod(place, len(names))
    path = names[position]
    if load(path).scheduled(seed=seed, index=turn, max_world_size=MOST_RANKS) is not None:
        return case_at(seed, index)
    return pool_at(seed, place, path=path, max_world_size=MOST_RANKS)[0]
