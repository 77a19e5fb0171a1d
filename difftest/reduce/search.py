"""The search for the simplest case.

It removes everything at once, then halves, then one thing at a time until nothing more can go.

Most of a case has nothing to do with its fault, so the first attempts remove as much as they can (delta
debugging over the simplifications, each applied as far as it goes). From what is left, single things are
removed; when no single thing can go, the last attempts are the list of necessary conditions. The result does
not depend on how many cases run at a time.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice

from difftest.cases.case import Case
from difftest.reduce.candidate import Candidate, Simplification
from difftest.reduce.journal import Journal
from difftest.reduce.measure import measure
from difftest.reduce.simplifications import simplifications

BUDGET = 60
"""The number of cases that a reduction may run: twice the median of what it takes."""

Shows = Callable[[Case], bool]
"""Whether a case still shows the fault, by running it; called from several threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """The simplest case that shows the fault.

    `conditions` say in words what could not be removed from it; `evaluations` is the number of cases that
    were run this time. `complete`: nothing is left to try; otherwise the budget ended the search.
    """

    case: Case
    conditions: tuple[str, ...]
    evaluations: int
    complete: bool


class _SpentError(Exception):
    """The budget is used up."""


def reduce(  # noqa: PLR0913  everything but the first two has a default
    case: Case,
    shows: Shows,
    *,
    possible: Callable[[Case], bool] = lambda _case: True,
    budget: int = BUDGET,
    parallel: int = 1,
    journal: Journal | None = None,
    moves: Sequence[Simplification] | None = None,
) -> Reduced | None:
    """The simplest case that still `shows` what `case` does; None if `case` does not.

    Cases that are not `possible` (the backend cannot express them) are not run and prove nothing. Up to
    `parallel` run at a time. An exception from `shows` ends the reduction; a journal allows to continue it.
    """
    chosen, complete = tuple(moves or simplifications()), True
    with ThreadPoolExecutor(parallel) as pool:
        search = _Search(shows, possible, budget, journal or Journal(), (pool, parallel))
        search.best = case
        try:
            if search.first([("", case)], None) is None:
                return None
            search.run(chosen)
        except _SpentError:
            complete = False
        return Reduced(
            case=search.best,
            conditions=search.conditions(chosen),
            evaluations=search.spent,
            complete=complete,
        )


class _Search:
    """One reduction in progress. `best` is the simplest case so far that shows the fault."""

    best: Case

    def __init__(
        self,
        shows: Shows,
        possible: Callable[[Case], bool],
        budget: int,
        journal: Journal,
        pool: tuple[ThreadPoolExecutor, int],
    ) -> None:
        self._shows, self._possible, self._budget, self._journal = shows, possible, budget, journal
        self._pool, self._parallel = pool
        self._running = dict[str, Future[bool]]()
        self.spent = 0

    def run(self, moves: Sequence[Simplification]) -> None:
        """The whole search: the first simplification alone, the others together, then single steps.

        The first comes alone because whether anything is sharded decides most.
        """
        self._take(self._steps(moves[0], self.best))
        self._leap(moves[1:])
        self._settle(moves)

    def first(self, candidates: Iterable[Candidate], below: Case | None) -> Case | None:
        """The first candidate that shows the fault.

        Only possible ones simpler than `below` are run, a few at a time. When one shows it, those after it
        go on, in case that they are asked for later.
        """
        wanted = (case for _, case in candidates if below is None or self._worth(case, below))
        begun = deque[Case]()
        while True:
            for case in islice(wanted, self._parallel - len(begun)):
                self._begin(case)
                begun.append(case)
            if not begun:
                return None
            if self._answer(case := begun.popleft()):
                return case

    def _worth(self, case: Case, below: Case) -> bool:
        return measure(case) < measure(below) and self._possible(case)

    def _begin(self, case: Case) -> None:
        """Runs the case, unless it ran before, is running, or is beyond the budget."""
        if self._journal.get(case.id) is None and case.id not in self._running and self.spent < self._budget:
            self.spent += 1
            self._running[case.id] = self._pool.submit(self._shows, case)

    def _answer(self, case: Case) -> bool:
        """Whether a case that was begun shows the fault; `_SpentError` if it was beyond the budget."""
        if running := self._running.pop(case.id, None):
            self._journal.add(case.id, shows=running.result())
        shown = self._journal.get(case.id)
        if shown is None:
            raise _SpentError
        return shown

    def _steps(self, move: Simplification, case: Case) -> Iterator[Candidate]:
        """What a simplification offers that is simpler and possible."""
        return ((words, simpler) for words, simpler in move(case) if self._worth(simpler, case))

    def _take(self, candidates: Iterable[Candidate]) -> bool:
        """Continues from the first candidate that shows the fault; False if none does."""
        simpler = self.first(candidates, self.best)
        self.best = simpler or self.best
        return simpler is not None

    def _leap(self, moves: Sequence[Simplification]) -> None:
        """Applies all simplifications together, each as far as it goes.

        If that loses the fault, it tries one half of them and then the other.
        """
        moves = [move for move in moves if next(self._steps(move, self.best), None)]
        if not moves:
            return
        middle = (len(moves) + 1) // 2
        together = (self._far(moves), self._far(moves[:middle]))
        simpler = self.first((("", case) for case in together), self.best)
        if simpler == together[0]:
            self.best = simpler
        elif len(moves) > 1:
            self._leap(moves[:middle])
            self._leap(moves[middle:])

    def _far(self, moves: Iterable[Simplification]) -> Case:
        """The best case after every simplification, each repeated until it offers nothing more."""
        case = self.best
        for move in moves:
            while step := next(self._steps(move, case), None):
                _, case = step
        return case

    def _settle(self, moves: Sequence[Simplification]) -> None:
        """Applies single steps until a whole round of simplifications brings none."""
        at, idle = 0, 0
        while idle < len(moves):
            idle = 0 if self._take(self._steps(moves[at], self.best)) else idle + 1
            at = at if idle == 0 else (at + 1) % len(moves)

    def conditions(self, moves: Sequence[Simplification]) -> tuple[str, ...]:
        """The words of all candidates that were tried from the best case and lost the fault."""
        steps = chain.from_iterable(self._steps(move, self.best) for move in moves)
        return tuple(
            dict.fromkeys(words for words, case in steps if words and self._journal.get(case.id) is False)
        )
