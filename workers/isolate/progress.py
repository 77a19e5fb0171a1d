"""Whether a run gets on: what tells one that hangs from one that is slow or that the machine keeps waiting.

A run hangs if it makes no progress for the length of its deadline. Two rules say what that means.

* **Time is the run's own.** The time in which its threads were ready and had no CPU does not count. A run
  that gets a tenth of a CPU has ten times as long; a run that sleeps has what the clock says, on a busy
  machine too.
* **Progress** is a new stage, a rank that starts or ends, or work: a process that used 5 % of the deadline as
  CPU time. Idle threads that wake up now and then use less: ranks that waited in gloo's collectives, or for
  an XLA replica, used less than 0.1 % of a CPU.

Work alone proves little, since a thread may wait in a loop. A run that works but begins no stage for five
deadlines, and at least a minute, hangs as well. The longest that a healthy run works within one stage is a
compilation: 6 s of its own among 14 generated cases, on 2 cores.

A run that does not hang may still not end within a sensible time, `longest_seconds` by the clock. Then
nothing is known about the backend: the machine was too busy, or the deadline too short.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from workers.deadlines import longest_seconds

WORKING = 0.05
"""The share of the deadline that a process must use as CPU time for it to count as progress."""

BUSY_DEADLINES, BUSY_AT_LEAST = 5.0, 60.0
"""In deadlines, and the least in seconds: how long a run may work without beginning a stage. Compilation does
not take less time where the deadline is short."""

STARVED = 0.5
"""A run whose own time is less than this share of the clock's was kept waiting by the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSample:
    """What was observed of a run at one moment.

    `time` is the clock's, in seconds. `cpu` has the seconds of CPU time that each process has used, `waited`
    those that each thread was ready to run and had no CPU, both since they started. `place` is anything that
    changes when a rank starts, ends or begins a stage.
    """

    time: float
    cpu: Mapping[int, float]
    waited: Mapping[int, float]
    place: Hashable


class RunProgress:
    """The progress of one run, from samples in the order of their times; `deadline` is in seconds."""

    def __init__(self, deadline: float, first: ProgressSample) -> None:
        self.own = 0.0
        """The run's own seconds since the first sample."""
        self._deadline = deadline
        self._first = self._last = self._last_work = first
        self._progressed = self._advanced = 0.0

    def take(self, sample: ProgressSample) -> None:
        """Takes one more sample into account."""
        last, self._last = self._last, sample
        elapsed = sample.time - last.time
        self.own += own_seconds(elapsed, _growth(last.cpu, sample.cpu), _growth(last.waited, sample.waited))
        if sample.place != last.place:
            self._advanced = self.own
        elif not any(
            used - self._last_work.cpu.get(pid, 0.0) >= WORKING * self._deadline
            for pid, used in sample.cpu.items()
        ):
            return
        self._progressed, self._last_work = self.own, sample

    @property
    def hang(self) -> str | None:
        """Why the run hangs, as the beginning of a sentence; None while it gets on."""
        if self.own - self._progressed >= self._deadline:
            return f"not finished after {self._deadline:g} s without progress"
        busy = busy_seconds(self._deadline)
        if self.own - self._advanced >= busy:
            return f"not finished after {busy:g} s of work within one stage"
        return None

    @property
    def overdue(self) -> str | None:
        """Why the run has to end although it gets on, as a sentence; None while it may continue."""
        passed = self._last.time - self._first.time
        if passed < longest_seconds(self._deadline):
            return None
        if self.own < STARVED * passed:
            waited = f"in {passed:.0f} s the run waited {passed - self.own:.0f} s for a CPU"
            return f"the machine was too busy: {waited}"
        return f"the run still got on after {passed:.0f} s; a longer DIFFTEST_DEADLINE gives it more time"


def busy_seconds(deadline: float) -> float:
    """How long a run with this deadline may work without beginning a stage, both in seconds."""
    return max(BUSY_AT_LEAST, BUSY_DEADLINES * deadline)


def own_seconds(elapsed: float, cpu: float, waited: float) -> float:
    """A run's own seconds of `elapsed` seconds.

    `cpu` and `waited` are the seconds that its threads had a CPU, and that they were ready and had none,
    added up over the threads. With n threads that want a CPU at a time, n >= 1, the waiting of all is n times
    the run's.
    """
    if elapsed <= 0.0:
        return 0.0
    wanting = max(1.0, (cpu + waited) / elapsed)
    return max(0.0, elapsed - waited / wanting)


def _growth(before: Mapping[int, float], now: Mapping[int, float]) -> float:
    """How much the values grew in all; what is new began at zero."""
    return sum(max(0.0, value - before.get(key, 0.0)) for key, value in now.items())
