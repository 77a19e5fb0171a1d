"""Who runs next: as many runs at a time as there are workers, those for evidence before all others."""

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from difftest.campaign.campaign import Execute, ExecuteGroup
from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError, NoTimeError, StoppedError
from difftest.judge.outcome import Outcome


class Turns:
    """Executes at most `workers` runs at a time.

    A worker goes to the run that has waited longest, of those for evidence if there are any: every later case
    waits for that evidence until it is recorded. `stopped` is why the command ends before its work is
    complete: for the runs that it stops there is no time.
    """

    def __init__(self, execute: Execute, workers: int, execute_group: ExecuteGroup | None = None) -> None:
        self._execute, self._free, self._lock = execute, workers, threading.Lock()
        self._execute_group = execute_group
        self.stopped: StoppedError | None = None
        self._first, self._others = deque[threading.Event](), deque[threading.Event]()

    def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """A run of a case, when it is its turn."""
        with self._turn(self._others):
            return self._execute(case, backend, options)

    def execute_group(
        self, runs: Sequence[tuple[Case, str]], options: Mapping[str, str]
    ) -> Sequence[Outcome | InfrastructureError]:
        """The runs of a group, one after another, when it is its turn."""
        assert self._execute_group is not None  # noqa: S101  called where the campaign has it
        with self._turn(self._others):
            return self._execute_group(runs, options)

    def execute_first(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """A run for evidence, when it is its turn."""
        with self._turn(self._first):
            return self._execute(case, backend, options)

    def add(self, workers: int) -> None:
        """Makes room for the groups of further workers."""
        with self._lock:
            self._free += workers
            self._give()

    @contextmanager
    def _turn(self, waiting: deque[threading.Event]) -> Iterator[None]:
        turn = threading.Event()
        with self._lock:
            waiting.append(turn)
            self._give()
        turn.wait()
        try:
            yield
        except StoppedError as stop:
            self.stopped = self.stopped or stop
            raise NoTimeError(str(stop)) from stop
        finally:
            with self._lock:
                self._free += 1
                self._give()

    def _give(self) -> None:
        """Gives free workers to those who wait. The caller holds the lock."""
        while self._free and (waiting := self._first or self._others):
            self._free -= 1
            waiting.popleft().set()
