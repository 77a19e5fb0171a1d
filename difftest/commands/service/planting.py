"""Looking for one planted defect: cases that can show it, on a backend that has it, until a campaign finds it and some more."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from difftest.campaign.campaign import ORACLE, Campaign, Execute
from difftest.campaign.recording import Progress
from difftest.campaign.run import run as run_campaign
from difftest.cases.case import Case
from difftest.judge.comparator import Comparison, compare
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding
from difftest.selftest.rates import Planted

if TYPE_CHECKING:
    from workers.backends import Backend
    from workers.faults import PlantedFault

FURTHER_CASES = 3
"""How many more cases are run once a defect was found, to see whether its fingerprint is one."""


@dataclass(frozen=True, kw_only=True)
class Planting:
    """What every search for a planted defect shares. `cases` gives them anew each time; `execute` runs the defect, `correct` the rest."""

    backends: Mapping[str, "Backend"]
    cases: Callable[[], Iterator[Case]]
    most: int
    execute: Execute
    correct: Execute

    def find(self, planted: tuple["PlantedFault", str]) -> Planted:
        """Runs cases with one defect planted into one backend until it is found, and some more for its fingerprint."""
        fault, name = planted
        blame = f"{self.backends[name].SIDE} {fault.blame}"
        missed = Planted(
            defect=fault.name, backend=name, detected=False, cases=self.most, expected_blame=blame
        )
        began, first, left = time.monotonic(), None, FURTHER_CASES
        effects, hits = list[float](), list[tuple[str, str]]()
        for progress in self._campaign(fault, name):
            seen = progress.result.comparisons.get(name, Comparison(verdict="inconclusive"))
            hits += [
                (progress.result.case.path, divergence.fingerprint) for divergence in seen.divergences[:1]
            ]
            if first is None and (
                found := [finding for finding in progress.new if finding.divergence.backend == name]
            ):
                first = replace(
                    _found(missed, progress.result.index + 1, found[0]), seconds=time.monotonic() - began
                )
            elif first and not (left := left - 1):
                break
            effects += [m.ratio for m in seen.measurements]
        return replace(first or replace(missed, floors=max(effects, default=None)), hits=tuple(hits))

    def _campaign(self, fault: "PlantedFault", name: str) -> Iterator[Progress]:
        from workers.faults import VARIABLE

        def execute(case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
            if backend == name:
                return self.execute(case, backend, {**options, VARIABLE: fault.name})
            return self.correct(case, backend, options)

        sides = {backend: self.backends[backend] for backend in (name, *self._others(name))}
        with tempfile.TemporaryDirectory() as folder:
            corpus = Corpus(Path(folder))
            corpus.prepare()
            yield from run_campaign(
                Campaign(name="planted", backends=sides, execute=execute, corpus=corpus),
                self._reached(fault, sides[name], name),
            )

    def _others(self, name: str) -> list[str]:
        """The backends that stand for the other sides, on which nothing is planted."""
        own = self.backends[name].SIDE
        return [
            other
            for other, backend in self.backends.items()
            if backend.PROFILE.stands_for_side and own != backend.SIDE
        ]

    def _reached(self, fault: "PlantedFault", backend: "Backend", name: str) -> Iterator[tuple[int, Case]]:
        """The cases that can show the defect, and that the backend computes rightly without it: upstream's own faults must not hide it."""
        for index, case in enumerate(self.cases()):
            if not backend.unsupported(case) and fault.reaches(case):
                healthy = compare(
                    case, name, backend.SIDE, self.correct(case, ORACLE, {}), self.correct(case, name, {})
                )
                if healthy.verdict == "agree":
                    yield index, case


def _found(planted: Planted, cases: int, finding: Finding) -> Planted:
    return replace(
        planted,
        detected=True,
        cases=cases,
        blame=finding.blame,
        symptom=finding.divergence.symptom,
        floors=finding.divergence.ratio,
    )
