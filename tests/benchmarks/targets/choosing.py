"""What other choices among candidates would gain for planted faults: who competes, and by what worth.

Today only candidates with the first one's purpose, dtype, size and start compete
(`generators.explore`), which lets most of them be dropped before they are complete. Here all
candidates are drawn whole, so that each costs as much as a case: the figures are for what is not
done. It takes two minutes.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from benchmarks.targets import Figure
from benchmarks.targets.searching import FEWER_CASES, FEWER_SEEDS, MOST_RANKS, planted_faults
from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber
from generators.cases import _decoder, _drawn, case_at, spelling_stream
from generators.explore import cost_of, features, pairs
from generators.options import spelled
from generators.paths import chosen, load
from generators.sequence import taking_turns

MOST_CANDIDATES = 16
Met: TypeAlias = Counter[object]
"""How often each feature, and each pair of features, was chosen."""


def _purpose_and_start(case: Case) -> object:
    learnable, exact, _, _, early = cost_of(case)
    return learnable, exact, early


RIVALS: Mapping[str, Callable[[Case], object]] = {
    "same purpose and start": _purpose_and_start,
    "all": lambda _case: None,
}
"""Who competes: candidates that are alike in this."""

WORTHS: Mapping[str, Callable[[Case, Met], float]] = {
    "new pairs": lambda case, met: sum(not met[pair] for pair in pairs(case)),
    "rare pairs": lambda case, met: sum(1 / (1 + met[pair]) for pair in pairs(case)),
    "rare features": lambda case, met: sum(1 / (1 + met[one]) for one in features(case)),
}
"""What a candidate is worth; what is rare counts less each time that it was chosen."""


def figures() -> Iterator[Figure]:
    """For each choice the ratio as in `searching`, and the share of exact cases."""
    for count, (rivals, alike), (worth, worth_of) in itertools.product(
        (MOST_CANDIDATES // 2, MOST_CANDIDATES), RIVALS.items(), WORTHS.items()
    ):
        cases = {seed: _chosen(seed, count, alike, worth_of) for seed in FEWER_SEEDS}
        _, ratio = planted_faults(functools.partial(_at, cases))
        exact = [case.data.regime == "exact" for of_seed in cases.values() for case in of_seed]
        share = f"{sum(exact) / len(exact):.0%} exact"
        yield Figure(f"{count} candidates, rivals: {rivals}, worth: {worth} ({share})", ratio, 1.5)


def _at(cases: Mapping[int, list[Case]], seed: int, index: int) -> Case:
    return cases[seed][index]


def _chosen(
    seed: int, count: int, alike: Callable[[Case], object], worth: Callable[[Case, Met], float]
) -> list[Case]:
    met, cases = Met(), list[Case]()
    for index in range(FEWER_CASES):
        pool = [case for case in _pool(seed, index)[:count] if alike(case) == alike(_pool(seed, index)[0])]
        best = max(pool, key=lambda case: worth(case, met))
        met.update(features(best))
        met.update(pairs(best))
        cases.append(spelled(best, spelling_stream(seed, index)))
    return cases


@functools.cache
def _pool(seed: int, index: int) -> list[Case]:
    """Whole candidates; the case alone where its path has a schedule."""
    at = CaseNumber.of(index)
    names, place = taking_turns(at.series, chosen(None)), at.index
    turn, position = divmod(place, len(names))
    path = names[position]
    if load(path).scheduled(seed=seed, index=turn, max_world_size=MOST_RANKS) is not None:
        return [case_at(seed, index)]
    decode = _decoder(path, MOST_RANKS)
    drawn = (_drawn(decode, seed, place, member) for member in range(MOST_CANDIDATES))
    return [case for case in drawn if case is not None]
