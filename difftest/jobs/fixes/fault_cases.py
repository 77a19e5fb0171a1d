"""What a fix is tried with: the case of a fault, its neighbours, and cases of other faults on its backend."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from difftest.cases.case import Case
from difftest.findings.faults import KNOWN, KnownFault, read_faults
from difftest.findings.ledger import read_ledger
from difftest.ground import plugins
from difftest.ground.errors import UsageError
from difftest.jobs.ask.finding_path import located
from difftest.jobs.ask.targets import read_finding
from difftest.jobs.watch.sample import Sample, backends_of, of_faults
from difftest.judge.divergence import Divergence
from difftest.judge.fingerprint import backend_pattern


class Attribute(Protocol):
    """Which fault a divergence of a case is."""

    def __call__(self, shown: Divergence, case: Case, /) -> str:
        """The name of the fault that is asked about, or what the ledger calls another; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCases:
    """A fault with the cases that may show it, each on a backend without an environment.

    `package` is the distribution that has the fault. `attribute` names it by `name`.
    """

    name: str
    cases: tuple[Sample, ...]
    package: str
    attribute: Attribute


def read(target: str) -> FaultCases:
    """A known fault by its name, or a finding by its folder or fingerprint; `UsageError` for anything else.

    And for a known fault without a case: a script alone has no neighbours.
    """
    fault = next((one for one in read_faults() if target in (one.name, f"{one.name}.py")), None)
    if fault is not None:
        return _of_known(fault)
    folder = located(Path(target))
    if not folder.exists():
        msg = f"{target!r} is no known fault and no finding; known faults are the files of {KNOWN}"
        raise UsageError(msg)
    return _of_finding(folder)


def _of_known(fault: KnownFault) -> FaultCases:
    patterns = dict.fromkeys(backend_pattern(entry["fingerprint"]) for entry in fault.shows)
    cases = tuple(
        (Case.from_json(example.case), backend)
        for example in fault.examples
        for pattern in patterns
        for backend in backends_of(fault.needs)
        if fnmatchcase(backend, pattern)
    )
    if not cases:
        allowed = "a known fault with `[[examples]]`, or a finding"
        msg = f"{fault.name} has no case, only its script; allowed: {allowed}"
        raise UsageError(msg)

    def attribute(shown: Divergence, case: Case) -> str:
        upstream = _listed(shown, case)
        return fault.name if upstream in fault.upstream else upstream

    return FaultCases(name=fault.name, cases=cases, package=fault.needs, attribute=attribute)


def _of_finding(folder: Path) -> FaultCases:
    from workers import backends

    subject = read_finding(folder)
    shown, name = subject.finding.divergence, subject.finding.fingerprint

    def attribute(other: Divergence, case: Case) -> str:
        alike = (other.check, other.symptom, other.cause) == (shown.check, shown.symptom, shown.cause)
        return name if alike else _listed(other, case)

    backend = plugins.plain(shown.backend)
    package = backends.load(backend).FRAMEWORK
    return FaultCases(name=name, cases=((subject.case, backend),), package=package, attribute=attribute)


def _listed(shown: Divergence, case: Case) -> str:
    """What the first entry of the ledger about a divergence calls its fault; empty where there is none."""
    first = next((entry for entry in read_ledger().entries if entry.matches(shown, case)), None)
    return first.upstream if first else ""


def counterexamples(subject: FaultCases, case: Case, backend: str, most: int) -> Sequence[Case]:
    """Cases of other known faults on the same backend, those of the path and of few ranks first.

    They show something else, or nothing, and a fix must leave them as they are.
    """
    of_package = of_faults(read_faults(), subject.package)
    others = [one for one, on in of_package if on == backend and one.id != case.id]
    return sorted(others, key=lambda one: (one.path != case.path, one.world_size))[:most]
