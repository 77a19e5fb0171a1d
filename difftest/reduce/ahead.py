"""Running cases ahead of a search that asks for one at a time.

A search is a function that asks whether a case shows the fault, and decides by the answer for which case it
asks next. It is called again whenever a run has ended. It gets the answers that are known, and guesses for
the others, and so says which cases it will probably need. These run beside the one that it needs now.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import suppress
from typing import Protocol, TypeAlias

from difftest.cases.case import Case
from difftest.reduce.journal import ReductionJournal

Shows: TypeAlias = Callable[[Case], bool]
"""Whether a case still shows the fault, by running it; called from several threads."""


class Ask(Protocol):
    """What a search is given to ask with."""

    def __call__(self, case: Case, *, likely: bool) -> bool:
        """Whether a case shows the fault; `likely` says whether the search expects that."""


Search: TypeAlias = Callable[[Ask], None]
"""What is called with `Ask`, and asks for the same cases whenever it gets the same answers."""


class _EnoughError(Exception):
    """As many cases are open as can run."""


class Ahead:
    """Runs the cases of a search, up to `parallel` at a time and `budget` in all; `spent` were run."""

    def __init__(
        self, shows: Shows, journal: ReductionJournal, pool: Executor, parallel: int, budget: int
    ) -> None:
        self._shows, self._journal, self._pool = shows, journal, pool
        self._parallel, self._budget = parallel, budget
        self._running = dict[Future[bool], str]()
        self.spent = 0

    def run(self, search: Search) -> bool:
        """Calls the search until all its answers are known; False if the budget ends it.

        The last call has no guess among its answers. Raises what a run raises.
        """
        while cases := self._open(search, self._parallel):
            self._begin(cases)
            if cases[0].id not in self._running.values():
                self._open(search, 0)
                return False
            # Waits until a run has ended
            ended, _ = wait(self._running, return_when=FIRST_COMPLETED)
            for future in ended:
                self._journal.add(self._running.pop(future), shows=future.result())
        return True

    def _open(self, search: Search, most: int) -> Sequence[Case]:
        """The first cases for which the search asks without a known answer.

        The first is needed, and the others are if it shows what is expected. The search stops at the next.
        """
        guesses = dict[str, tuple[Case, bool]]()

        def ask(case: Case, *, likely: bool) -> bool:
            shown = self._journal.get(case.id)
            if shown is None and case.id not in guesses:
                if len(guesses) == most:
                    raise _EnoughError
                guesses[case.id] = (case, likely)
            return guesses[case.id][1] if shown is None else shown

        with suppress(_EnoughError):
            search(ask)
        return [case for case, _ in guesses.values()]

    def _begin(self, cases: Sequence[Case]) -> None:
        """Runs those that are not running, as far as there are workers and the budget allows."""
        for case in cases:
            free = len(self._running) < self._parallel and self.spent < self._budget
            if free and case.id not in self._running.values():
                self.spent += 1
                self._running[self._pool.submit(self._shows, case)] = case.id
