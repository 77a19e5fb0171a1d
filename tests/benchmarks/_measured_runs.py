"""Runs of a campaign, one at a time, with the processor time of each by what it was for and by phase."""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from real_runs import together

from benchmarks._processor_time import processor_seconds
from difftest.campaign.campaign import ORACLE
from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError
from difftest.judge.noise import SAMPLES_VARIABLE
from difftest.judge.outcome import Outcome
from workers import backends
from workers.isolate import sandbox
from workers.isolate.zygotes import ROOT, Zygote, zygote_with

FLOOR, CONFIRMATION, EVIDENCE, DRIVER = "noise floor", "confirmation", "evidence", "driver"

FORKS_AND_ENDS = "forks and ends"
"""What a process that forks ranks does itself, and what its ranks do after they have left their results."""

_PHASES = "benchmarks._phases"


@dataclass(slots=True)
class MeasuredRuns:
    """Executes one run at a time. `seconds` are of processor time, by purpose and by phase.

    Purposes of main runs are the backends, the oracle and its noise floor. `runs` counts processes' runs by
    purpose.
    """

    seconds: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    runs: Counter[str] = field(default_factory=Counter)
    _zygotes: dict[int, Zygote] = field(default_factory=dict)
    _made: set[tuple[str, str, str]] = field(default_factory=set)
    _drawn: set[str] = field(default_factory=set)
    _phases: list[tuple[str, list[dict[str, float]]]] = field(default_factory=list)

    def drawn(self, case: Case) -> Case:
        """The case, whose first run on each backend is a main run from now on."""
        self._drawn.add(case.id)
        return case

    def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """A run alone."""
        with self._measured([case], backend, options):
            return sandbox.run(case, backend, options=options)

    def execute_group(
        self, cases: Sequence[Case], backend: str, options: Mapping[str, str]
    ) -> list[Outcome | InfrastructureError]:
        """Runs in shared processes."""
        with self._measured(cases, backend, options):
            return together(cases, backend, options)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """A context in which the ranks of this process leave their times, and every zygote is warm."""
        forks, ranks, path = sandbox.zygote_with, sandbox.run_ranks, os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests"), *filter(None, [path])])
        sandbox.zygote_with = lambda preload, model=(): zygote_with((*preload, _PHASES), model)
        sandbox.run_ranks = self._reading(ranks)
        try:
            for name in (ORACLE, *backends.candidates()):
                zygote = zygote_with((*backends.load(name).PRELOAD, _PHASES))
                zygote.warm()
                self._zygotes[zygote.pid] = zygote
            yield
        finally:
            sandbox.zygote_with, sandbox.run_ranks = forks, ranks

    def used(self) -> float:
        """The processor time so far of this process and of all that it started."""
        return time.process_time() + self._forked()

    def _forked(self) -> float:
        return sum(map(processor_seconds, self._zygotes))

    def _reading(self, run_ranks: Callable[..., Any]) -> Callable[..., Any]:
        """`run_ranks`, after which the phases of its ranks are read."""

        def measured(zygote: Zygote, work: Any, *rest: Any) -> Any:  # noqa: ANN401  as the function is
            try:
                return run_ranks(zygote, work, *rest)
            finally:
                for file in (file for folder in work.folders for file in Path(folder).glob("*.phases")):
                    times = msgspec.json.decode(file.read_bytes(), type=list[dict[str, float]])
                    self._phases.append((work.backend, times))

        return measured

    @contextmanager
    def _measured(self, cases: Sequence[Case], backend: str, options: Mapping[str, str]) -> Iterator[None]:
        before = self._forked()
        purpose = self._purpose(cases, backend, options)
        self._phases.clear()
        yield
        used = self._forked() - before
        self.runs[purpose] += len(cases)
        for ran, times in self._phases:
            for again, phases in enumerate(times):
                of_floor = purpose == ORACLE == ran and again
                self.seconds[FLOOR if of_floor else purpose].update(phases)
                used -= sum(phases.values())
        self.seconds[purpose][FORKS_AND_ENDS] += used

    def _purpose(self, cases: Sequence[Case], backend: str, options: Mapping[str, str]) -> str:
        key = (cases[0].id, backend, str(sorted(options.items())))
        first = key not in self._made and cases[0].id in self._drawn
        self._made.add(key)
        if not first:
            return EVIDENCE
        return CONFIRMATION if SAMPLES_VARIABLE in options else backend
