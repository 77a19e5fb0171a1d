"""How many planted faults an hour finds if XLA compiles without optimisation in a share of the cases.

The time of a case is that of its oracle and of every backend that takes it, one run after another. A fault
that is planted into a backend of XLA's is found if its first case differs from the oracle. `SHARES` in
`generators/options.py` has the share that campaigns have.
"""

import itertools
import time
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from benchmarks.targets import Figure
from benchmarks.targets._campaign import warm
from difftest.campaign.campaign import ORACLE
from difftest.cases.case import Case
from difftest.cases.options import Spelling
from difftest.jobs.proof.planted_campaigns import chosen_defects
from difftest.judge.comparator import compare
from difftest.judge.outcome import Trace
from generators.cases import case_at
from workers import backends
from workers.faults import VARIABLE
from workers.isolate import sandbox

CASES = 12
SHARES = (1 / 4, 1 / 2, 3 / 4, 1.0)


def figures() -> Iterator[Figure]:
    """For each share, faults per hour with it over faults per hour without."""
    warm()
    cases = [case_at(0, index) for index in range(CASES)]
    seconds = [sum(_seconds(compiled(case, unoptimised)) for case in cases) for unoptimised in (False, True)]
    planted = list(_planted())
    found = [sum(each) for each in zip(*(_found(*one) for one in planted), strict=True)]
    words = f"of {len(planted)} planted faults {found[0]} found with optimisation, {found[1]} without"
    for share in SHARES:
        rate = _mixed(found, share) / _mixed(seconds, share) / (found[0] / seconds[0])
        yield Figure(f"{share:.0%} of cases unoptimised: planted faults per hour ({words})", rate, 1.0)


def compiled(case: Case, unoptimised: bool) -> Case:
    """The case in its forms, optimised by XLA or not."""
    return replace(case, spelling=replace(case.forms, unoptimised=unoptimised))


def _mixed(of: Sequence[float], share: float) -> float:
    """What it is if a `share` of the cases is unoptimised, of what it is if none is and if all are."""
    none, whole = of
    return (1 - share) * none + share * whole


def _seconds(case: Case) -> float:
    takes = [name for name, one in backends.candidates().items() if one.unsupported(case) is None]
    began = time.monotonic()
    for name in (ORACLE, *takes):
        sandbox.run(case, name)
    return time.monotonic() - began


def _planted() -> Iterator[tuple[str, str, Case]]:
    """Every third fault of XLA's backends, with the first case that shows it, which takes no form here."""
    of_xla = [pair for pair in chosen_defects("") if backends.load(pair[1]).SIDE == "xla"]
    for fault, backend in of_xla[::3]:
        plain = (replace(case_at(0, index), spelling=Spelling()) for index in itertools.count())
        takes = backends.load(backend).unsupported
        yield fault.name, backend, next(c for c in plain if fault.reaches(c) and takes(c) is None)


def _found(fault: str, backend: str, case: Case) -> Iterator[bool]:
    """Whether the fault is found with optimisation, and without. The oracle takes no forms, and runs once."""
    truth = sandbox.run(case, ORACLE)
    assert isinstance(truth, Trace)
    for unoptimised in (False, True):
        planted = compiled(case, unoptimised)
        actual = sandbox.run(planted, backend, options={VARIABLE: fault})
        yield bool(compare(planted, backend, "xla", truth, actual).divergences)
