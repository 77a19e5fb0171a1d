"""Searching for a planted defect: a campaign on a backend that has it, over cases that can show it."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from difftest.campaign.campaign import ORACLE, Campaign, Execute
from difftest.campaign.recording import Progress
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.cases.twins import twin
from difftest.ground.errors import UsageError
from difftest.ground.own_folder import own_folder
from difftest.ground.plugins import plain
from difftest.jobs.proof.planted_summary import Planted
from difftest.judge.comparator import Comparison, compare
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding

if TYPE_CHECKING:
    from workers.backends import Backend
    from workers.faults import PlantedFault

FURTHER_CASES = 3
"""How many more cases run after a defect was found, to see whether they give the same fingerprint."""


def chosen_defects(names: str, backends: tuple[str, ...] = ()) -> list[tuple["PlantedFault", str]]:
    """The defects named in the comma-separated `names`, each with every backend that it is planted into.

    The name of a path stands for all defects of its cases. If none is named: all that a case of the usual
    paths can show with this machine's GPUs. With `backends` they are planted into those alone, and into those
    that run the same code on other devices. `UsageError` for an unknown name.
    """
    from workers.faults import all_faults
    from workers.gpus import gpu_count

    faults, available = all_faults(), gpu_count()
    requested = [name.strip() for name in names.split(",") if name.strip()]
    requested = requested or [
        name for name, fault in faults.items() if fault.least_gpus <= available and not fault.paths
    ]
    paths = {path for fault in faults.values() for path in fault.paths}
    by_path = {path: [fault.name for fault in faults.values() if path in fault.paths] for path in paths}
    requested = [name for each in requested for name in by_path.get(each, [each])]
    for name in requested:
        if name not in faults:
            msg = f"unknown defect {name!r}; allowed: {', '.join(sorted([*faults, *by_path]))}"
            raise UsageError(msg)
    return [(faults[name], backend) for name in requested for backend in _into(faults[name], backends)]


def _into(fault: "PlantedFault", backends: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `backends` that a fault can be planted into; by default all that it names itself."""
    from workers.backends import profile

    able = (name for name in backends if {plain(name), profile(name).same_as} & set(fault.backends))
    return tuple(able) if backends else fault.backends


@dataclass(frozen=True, kw_only=True)
class Planting:
    """What all searches for a planted defect share.

    `cases(defect)` starts the same cases anew at each call, at most `most`. `execute` runs a case with a
    defect, `correct` without one.
    """

    backends: Mapping[str, "Backend"]
    cases: Callable[["PlantedFault"], Iterator[Case]]
    most: int
    execute: Execute
    correct: Execute

    def find(self, planted: tuple["PlantedFault", str]) -> Planted:
        """Plants a defect into a backend and runs cases until it is found.

        `FURTHER_CASES` more are run for their fingerprints; none for a defect of torch itself: two wrong
        formulas of one optimizer, or of one layer, have one.
        """
        defect, name = planted
        blame = defect.blame if defect.in_torch else f"{self.backends[name].SIDE} {defect.blame}"
        missed = Planted(
            defect=defect.name, backend=name, detected=False, cases=self.most, expected_blame=blame
        )
        began, result, left = time.monotonic(), None, 0 if defect.in_torch else FURTHER_CASES
        effects, hits = list[float](), list[tuple[str, str]]()
        for progress in self._campaign(defect, name):
            examined = progress.result
            comparison = examined.comparisons.get(name, Comparison(verdict="inconclusive"))
            if not examined.case.model.is_program and not defect.in_torch:
                hits += [(examined.case.path, first.fingerprint) for first in comparison.divergences[:1]]
            new = [finding for finding in progress.new if finding.divergence.backend == name]
            if result is None and new:
                seconds = time.monotonic() - began
                result = replace(_detected(missed, examined.index + 1, new[0]), seconds=seconds)
            elif result:
                left -= 1
            effects += [m.ratio for m in comparison.measurements]
            if result and not left:
                break
        return replace(result or replace(missed, floors=max(effects, default=None)), hits=tuple(hits))

    def _campaign(self, defect: "PlantedFault", name: str) -> Iterator[Progress]:
        """A campaign with the defect on backend `name` and without it on the other side.

        A defect of torch itself is in the oracle too.
        """
        from workers.faults import VARIABLE

        def execute(case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
            if backend == name or defect.in_torch:
                return self.execute(case, backend, {**options, VARIABLE: defect.name})
            return self.correct(case, backend, options)

        others = () if defect.in_torch else self._others(name)
        sides = {backend: self.backends[backend] for backend in (name, *others)}
        with own_folder("corpus") as folder:
            corpus = Corpus(folder)
            corpus.prepare()
            campaign = Campaign(
                name="planted",
                backends=sides,
                execute=execute,
                corpus=corpus,
                references=frozenset({name} if defect.in_torch else ()),
                explanation=lambda *_, **__: defect,  # only the blame is asked
            )
            showing = self._showing(defect, name)
            # The first case shows a fault of torch itself: none is run beside it.
            apart: Iterable[Iterable[tuple[int, Case]]] = ([one] for one in showing)
            for cases in apart if defect.in_torch else (showing,):
                yield from run(campaign, cases)

    def _others(self, name: str) -> list[str]:
        """The backends that stand for the other sides, on which nothing is planted."""
        own = self.backends[name].SIDE
        return [
            other
            for other, backend in self.backends.items()
            if backend.PROFILE.stands_for_side and own != backend.SIDE
        ]

    def _showing(self, defect: "PlantedFault", name: str) -> Iterator[tuple[int, Case]]:
        """The cases that can show the defect, and that the backend computes correctly without it.

        In any other case, a fault of the framework's own could hide the defect.
        """
        backend = self.backends[name]
        for index, drawn in enumerate(self.cases(defect)):
            case = twin(drawn) if defect.in_torch else drawn
            if not backend.unsupported(case) and defect.reaches(case):
                truth, healthy = self.correct(case, ORACLE, {}), self.correct(case, name, {})
                if compare(case, name, backend.SIDE, truth, healthy).verdict == "agree":
                    yield index, case


def _detected(missed: Planted, cases: int, finding: Finding) -> Planted:
    return replace(
        missed,
        detected=True,
        cases=cases,
        blame=finding.blame,
        symptom=finding.divergence.symptom,
        floors=finding.divergence.ratio,
    )
