"""Runs of a campaign, one at a time, with the processor time of each by what it was for and by phase."""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from real_runs import each_together

from benchmarks._processor_time import processor_seconds
from difftest.campaign.campaign import ORACLE
from difftest.cases.case import Case
from difftest.cases.twins import is_twin
from difftest.ground.errors import InfrastructureError
from difftest.judge.noise import SAMPLES_VARIABLE
from difftest.judge.outcome import Outcome
from workers import backends
from workers.isolate import sandbox
from workers.isolate.zygotes import ROOT, Zygote, zygote_with

FLOOR, CONFIRMATION, EVIDENCE, DRIVER = "noise floor", "confirmation", "evidence", "driver"
TWINS = "references"
"""Runs of twins: those of references, and of the oracle where it runs no other case in the same processes."""

FORKS_AND_ENDS = "forks and ends"
"""What a process that forks ranks does itself, and what its ranks do after they have left their results."""

_PHASES = "benchmarks._phases"


@dataclass(slots=True)
class MeasuredRuns:
    """Executes one run at a time. `seconds` are of processor time, by purpose and by phase.

    Purposes of main runs are the backends, the oracle and its noise floor; the others have their seconds by
    backend. `runs` counts runs by purpose.
    """

    seconds: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
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
        with self._measured([(case, backend)], options):
            return sandbox.run(case, backend, options=options)

    def execute_group(
        self, runs: Sequence[tuple[Case, str]], options: Mapping[str, str]
    ) -> list[Outcome | InfrastructureError]:
        """Runs in shared processes; all count as the first one's backend, but for what has a phase."""
        with self._measured(runs, options):
            return each_together(runs, options)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """A context in which the ranks of this process leave their times, and every zygote is warm."""
        replaced: Any = sandbox  # two of its names are not its own
        forks, ranks, path = replaced.zygote_with, replaced.run_ranks, os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests"), *filter(None, [path])])
        replaced.zygote_with = lambda preload: zygote_with((*preload, _PHASES))
        replaced.run_ranks = self._reading(ranks)
        try:
            for name in (ORACLE, *backends.candidates()):
                zygote = zygote_with((*backends.load(name).PRELOAD, _PHASES))
                zygote.warm()
                self._zygotes[zygote.pid] = zygote
            yield
        finally:
            replaced.zygote_with, replaced.run_ranks = forks, ranks

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
                for backend, folder in zip(work.backends, work.folders, strict=True):
                    for file in Path(folder).glob("*.phases"):
                        with suppress(msgspec.DecodeError):  # of a rank that was killed while it wrote
                            times = msgspec.json.decode(file.read_bytes(), type=list[dict[str, float]])
                            self._phases.append((backend, times))

        return measured

    @contextmanager
    def _measured(self, runs: Sequence[tuple[Case, str]], options: Mapping[str, str]) -> Iterator[None]:
        before = self._forked()
        (_, first), purpose = runs[0], self._purpose(*runs[0], options)
        self._phases.clear()
        yield
        used = self._forked() - before
        main = purpose == first
        self.runs.update(name if main else purpose for _, name in runs)
        for ran, times in self._phases:
            for again, phases in enumerate(times):
                of_floor = purpose == ORACLE and again
                by = phases if main else {ran: sum(phases.values())}
                self._add(FLOOR if of_floor else ran if main else purpose, by)
                used -= sum(phases.values())
        self._add(purpose, {FORKS_AND_ENDS: used})

    def _add(self, purpose: str, seconds: Mapping[str, float]) -> None:
        there = self.seconds[purpose]
        for phase, used in seconds.items():
            there[phase] = there.get(phase, 0.0) + used

    def _purpose(self, case: Case, backend: str, options: Mapping[str, str]) -> str:
        if is_twin(case):
            return TWINS
        key = (case.id, backend, str(sorted(options.items())))
        first = key not in self._made and case.id in self._drawn
        self._made.add(key)
        if not first:
            return EVIDENCE
        return CONFIRMATION if SAMPLES_VARIABLE in options else backend
