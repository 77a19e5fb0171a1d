"""Imported by the processes that fork ranks: every rank leaves its processor time by phase of its cases.

Only benchmarks import this. A file `rankN.phases` in the folder of a case has a dictionary for each time that
the case was trained in that rank: the oracle trains it once, and then again for every sample of its noise.
"""

import time
from pathlib import Path

import msgspec

from difftest.judge.outcome import Outcome
from difftest.judge.stage import Stage
from workers import child
from workers.isolate import run_folder

START, END = "start", "end"
"""What a rank does before it begins to build its first case, and after it has trained the last one."""


class TimedStages(run_folder.LastStages):
    """Stages that also say how much processor time the rank has used in each of them."""

    def begin(self, folder: Path) -> None:
        """As in the class above."""
        self._times: list[dict[str, float]] = [{}]
        self._phase, self._since = START, getattr(self, "_since", 0.0)
        self._times_file = folder / f"rank{self._rank}.phases"
        _current[:] = [self]
        super().begin(folder)

    def __call__(self, stage: Stage, step: int, operator: str = "") -> None:
        """As in the class above."""
        super().__call__(stage, step, operator)
        if stage is Stage.BUILD and self._phase not in {START, Stage.BUILD}:
            self.enter(stage, {})
        else:
            self.enter(stage)

    def enter(self, phase: str, *next_time: dict[str, float]) -> None:
        """Ends the phase that goes on; the case may be trained for the next time from here on."""
        now = time.process_time()
        self._times[-1][self._phase] = self._times[-1].get(self._phase, 0.0) + now - self._since
        self._times += next_time
        self._phase, self._since = phase, now
        self._times_file.write_bytes(msgspec.json.encode(self._times))


_current: list[TimedStages] = []
_write = run_folder.write


def _timed_write(folder: Path, rank: int, outcome: Outcome, at: int | None = None) -> None:
    _current[0].enter(END)
    _write(folder, rank, outcome, at)


child.LastStages = TimedStages  # type: ignore[attr-defined]
run_folder.write = _timed_write
