"""How many planted faults an hour finds if XLA compiles without optimisation in a share of the cases.

The time of a case is that of its oracle and of every backend that takes it, one run after another. A fault
that is planted into a backend of XLA's is found if its first case differs from the oracle. `UNOPTIMISED` in
`generators/options.py` is the share that campaigns have.
"""

import itertools
import time
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from benchmarks.targets import Figure
from benchmarks.targets._campaign import warm
from difftest.campaign.campaign import ORACLE
from difftest.cases.case import Case
from difftest.cases.options import Spelling
from difftest.commands.service.planting import chosen_defects
from difftest.judge.comparator import compare
from difftest.judge.outcome import Trace
from generators.cases import case_at
from workers import backends
from workers.faults import VARIABLE, PlantedFault
from workers.isolate import sandbox

CASES = 12
FAULTS = 16
SHARES = (1 / 4, 1 / 2, 3 / 4, 1.0)


def figures() -> Iterator[Figure]:
    """For each share, faults per hour with it over faults per hour without."""
    warm()
    cases = [case_at(0, index) for index in range(CASES)]
    hours = {effort: sum(_seconds(compiled(case, effort)) for case in cases) for effort in (False, True)}
    planted = list(_planted())
    found = {effort: sum(_found(*one, effort) for one in planted) for effort in (False, True)}
    words = f"of {len(planted)} planted faults {found[False]} found with optimisation, {found[True]} without"
    for share in SHARES:
        rate = _mixed(found, share) / _mixed(hours, share) / (found[False] / hours[False])
        yield Figure(f"{share:.0%} of cases unoptimised: planted faults per hour ({words})", rate, 1.0)


def compiled(case: Case, effort: bool) -> Case:
    """The case in its forms, optimised by XLA or not."""
    return replace(case, spelling=replace(case.forms, unoptimised=effort))


def _mixed(of: Mapping[bool, float], share: float) -> float:
    return (1 - share) * of[False] + share * of[True]


def _seconds(case: Case) -> float:
    takes = [name for name, one in backends.candidates().items() if one.unsupported(case) is None]
    began = time.monotonic()
    for name in (ORACLE, *takes):
        sandbox.run(case, name)
    return time.monotonic() - began


def _planted() -> Iterator[tuple[str, str, Case]]:
    """Faults of XLA's backends, each with the first case that shows it and takes no form."""
    for fault, backend in itertools.islice(_on_xla(), FAULTS):
        plain = (replace(case_at(0, index), spelling=Spelling()) for index in itertools.count())
        takes = backends.load(backend).unsupported
        yield fault.name, backend, next(c for c in plain if fault.reaches(c) and takes(c) is None)


def _on_xla() -> Iterator[tuple[PlantedFault, str]]:
    """Every third, so that they are of many kinds."""
    of_xla = [pair for pair in chosen_defects("") if backends.load(pair[1]).SIDE == "xla"]
    return iter(of_xla[::3])


def _found(fault: str, backend: str, case: Case, effort: bool) -> bool:
    case = compiled(case, effort)
    truth, actual = sandbox.run(case, ORACLE), sandbox.run(case, backend, options={VARIABLE: fault})
    assert isinstance(truth, Trace)
    return bool(compare(case, backend, "xla", truth, actual).divergences)
