"""How many planted faults a core hour finds if XLA compiles as cheaply as it can in a share of the cases.

A fault that is planted into a backend of XLA's gets the first case that it can show in, and that the backend
computes correctly without it, compiled either way: on any other case a fault of the framework's own would
count as found. The time of a case is the processor time of its oracle and of every backend that takes it.
`SHARES` in `generators/options.py` has the share that campaigns have. It takes ten minutes.
"""

from collections.abc import Iterator, Sequence
from functools import cache

from msgspec.structs import replace

from benchmarks._processor_time import processor_seconds
from benchmarks.targets import Figure
from benchmarks.targets._campaign import warm
from difftest.campaign.campaign import ORACLE
from difftest.cases.case import Case
from difftest.cases.options import Spelling
from difftest.jobs.proof.planted_campaigns import chosen_defects
from difftest.judge.comparator import compare
from difftest.judge.outcome import Outcome, Trace
from generators.cases import case_at
from workers import backends
from workers.faults import VARIABLE, PlantedFault
from workers.isolate import sandbox

CASES = 12
MOST_CASES = 200
"""How many cases are looked through for one that shows a fault."""

HANG_AFTER_SECONDS = 20.0

SHARES = (1 / 4, 1 / 2, 3 / 4, 15 / 16, 1.0)


def figures() -> Iterator[Figure]:
    """For each share, faults per hour with it over faults per hour without."""
    pids = [zygote.pid for zygote in warm()]
    cases = [case_at(0, index) for index in range(CASES)]
    seconds = [sum(_seconds(compiled(case, cheap), pids) for case in cases) for cheap in (False, True)]
    planted = [one for one in chosen_defects("") if backends.load(one[1]).SIDE == "xla"]
    results = {f"{fault.name} on {name}": _finds(fault, name) for fault, name in planted}
    shown = [one for one in results.values() if one]
    detected = [sum(each) for each in zip(*shown, strict=True)]
    words = f"of {len(shown)} planted faults {detected[0]} as users compile, {detected[1]} cheaply"
    differ = [name for name, one in results.items() if one and one[0] != one[1]]
    words += f"; otherwise: {', '.join(differ)}" if differ else ""
    words += f"; {len(planted) - len(shown)} without a case" if len(shown) < len(planted) else ""
    for share in SHARES:
        rate = _mixed(detected, share) / _mixed(seconds, share) / (detected[0] / seconds[0])
        yield Figure(
            f"{share:.0%} of cases compiled cheaply: planted faults per core hour ({words})", rate, 1.0
        )


def compiled(case: Case, unoptimised: bool) -> Case:
    """The case in its forms, compiled by XLA as users do or cheaply."""
    return replace(case, spelling=replace(case.forms, unoptimised=unoptimised))


def _mixed(of: Sequence[float], share: float) -> float:
    """What it is if a `share` of the cases is compiled cheaply, of what it is if none is and if all are."""
    none, whole = of
    return (1 - share) * none + share * whole


def _seconds(case: Case, pids: Sequence[int]) -> float:
    takes = [name for name, one in backends.candidates().items() if one.unsupported(case) is None]
    before = sum(map(processor_seconds, pids))
    for name in (ORACLE, *takes):
        sandbox.run(case, name)
    return sum(map(processor_seconds, pids)) - before


def _finds(fault: PlantedFault, backend: str) -> tuple[bool, bool] | None:
    """Whether a planted fault is found as users compile, and cheaply; None where no case can show it."""
    takes = backends.load(backend).unsupported
    for index in range(MOST_CASES):
        plain = replace(case_at(0, index), spelling=Spelling())
        if not fault.reaches(plain) or takes(plain):
            continue
        forms = compiled(plain, unoptimised=False), compiled(plain, unoptimised=True)
        if all(_agrees(case, backend, _correct(case, backend)) for case in forms):
            users, cheap = (not _agrees(case, backend, _with(fault, case, backend)) for case in forms)
            return users, cheap
    return None


def _with(fault: PlantedFault, case: Case, backend: str) -> Outcome:
    return sandbox.run(case, backend, deadline=HANG_AFTER_SECONDS, options={VARIABLE: fault.name})


def _agrees(case: Case, backend: str, actual: Outcome) -> bool:
    truth = _correct(compiled(case, unoptimised=False), ORACLE)
    return isinstance(truth, Trace) and compare(case, backend, "xla", truth, actual).verdict == "agree"


def _correct(case: Case, backend: str) -> Outcome:
    """A run without a planted fault, made once."""
    return _run_of(case.to_json(), backend)


@cache
def _run_of(case: bytes, backend: str) -> Outcome:
    return sandbox.run(Case.from_json(case), backend)
