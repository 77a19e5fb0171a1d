"""A sign of life of a command that takes long: a bar on a terminal, a plain line now and then elsewhere."""

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import click
from tqdm import tqdm

from difftest.campaign.campaign import Execute, ExecuteGroup
from difftest.cases.case import Case
from difftest.ground.counted import counted
from difftest.ground.errors import InfrastructureError
from difftest.judge.outcome import Outcome

EVERY_SECONDS = 10.0
"""How often a plain line is printed."""

TIME_ALONE = "{desc} ... {elapsed}"

SECOND = 1.0
"""How often a bar is drawn anew."""


class Working:
    """Says on standard error that the command `name` works while the context is open, and counts its runs.

    Without `counts` there are none, and a terminal shows the time alone. `cases` is how many cases will be
    done, 0 where the command does not count them.
    """

    def __init__(self, name: str, *, counts: bool = True, cases: int = 0) -> None:
        self._name, self._began = name, time.monotonic()
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._started = self._done = self._cases_done = 0
        self._cases = cases
        self._bar = tqdm(
            desc=name,
            unit=" runs",
            disable=not sys.stderr.isatty(),
            dynamic_ncols=True,
            bar_format=None if counts else TIME_ALONE,
        )

    def __enter__(self) -> Self:
        if self._bar.disable:
            click.echo(f"{self._name} ...", err=True)
        threading.Thread(target=self._show, name=f"progress of {self._name}", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._bar.close()

    def step(self) -> None:
        """Counts a run that is done."""
        self._count(started=1, done=1)

    def case_done(self) -> None:
        """Counts a case whose runs are done."""
        with self._lock:
            self._cases_done += 1
            self._bar.set_postfix_str(self._of_cases(), refresh=False)

    def goes_on(self, name: str) -> None:
        """Says what the command does from now on; the time and the counts go on."""
        self._name = name
        self._bar.set_description(name, refresh=False)
        if self._bar.disable:
            click.echo(f"{name} ...", err=True)

    def counted(self, execute: Execute) -> Execute:
        """`execute`, with its runs counted."""

        def run(case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
            self._count(started=1)
            try:
                return execute(case, backend, options)
            finally:
                self._count(done=1)

        return run

    def counted_group(self, execute: ExecuteGroup) -> ExecuteGroup:
        """As `counted`, for several cases at a time."""

        def run(
            runs: Sequence[tuple[Case, str]], options: Mapping[str, str]
        ) -> Sequence[Outcome | InfrastructureError]:
            self._count(started=len(runs))
            try:
                return execute(runs, options)
            finally:
                self._count(done=len(runs))

        return run

    def line(self) -> str:
        """What a log gets: the time so far, and the runs."""
        seconds = time.monotonic() - self._began
        running = self._started - self._done
        cases = f", {self._of_cases()}" if self._cases else ""
        runs = f", {self._done} runs done, {running} running" if self._started else ""
        return f"{self._name}: {seconds:.0f} s{cases}{runs}"

    def _of_cases(self) -> str:
        return f"{self._cases_done} of {counted(self._cases, 'case')}"

    def _count(self, *, started: int = 0, done: int = 0) -> None:
        with self._lock:
            self._started += started
            self._done += done
            self._bar.update(done)

    def _show(self) -> None:
        while not self._ended.wait(EVERY_SECONDS if self._bar.disable else SECOND):
            if self._bar.disable:
                click.echo(self.line(), err=True)
            else:
                with self._lock:
                    self._bar.refresh()
