"""The search for the simplest case.

It removes everything at once, then halves, then one thing at a time until nothing more can go.

Most of a case has nothing to do with its fault, so the first attempts remove as much as they can (delta
debugging over the simplifications, each applied as far as it goes). From what is left, single things are
removed; when no single thing can go, the last attempts are the list of necessary conditions. The result does
not depend on how many cases run at a time.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

from difftest.cases.case import Case
from difftest.reduce.ahead import Ahead, Ask, Shows
from difftest.reduce.candidate import Candidate, Simplification
from difftest.reduce.journal import ReductionJournal
from difftest.reduce.measure import is_less, measure
from difftest.reduce.simplifications import simplifications

BUDGET = 60
"""The number of cases that a reduction may run: twice the median of what it takes."""

FEW = 2
"""At most this many simplifications are likely to go together: three of four go alone."""


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


def reduce(  # noqa: PLR0913  everything but the first two has a default
    case: Case,
    shows: Shows,
    *,
    possible: Callable[[Case], bool] = lambda _case: True,
    budget: int = BUDGET,
    parallel: int = 1,
    journal: ReductionJournal | None = None,
    moves: Sequence[Simplification] | None = None,
) -> Reduced | None:
    """The simplest case that still `shows` what `case` does; None if `case` does not.

    Cases that are not `possible` (the backend cannot express them) are not run and prove nothing. Up to
    `parallel` run at a time. An exception from `shows` ends the reduction; a journal allows to continue it.
    """
    journal = journal or ReductionJournal()
    search = _Search(case, tuple(moves or simplifications()), possible)
    with ThreadPoolExecutor(parallel) as pool:
        ahead = Ahead(shows, journal, pool, parallel, budget)
        complete = ahead.run(search)
    if journal.get(case.id) is False:
        return None
    return Reduced(
        case=search.best, conditions=search.conditions(journal), evaluations=ahead.spent, complete=complete
    )


class _Search:
    """One reduction, for `Ahead`. `best` is the simplest case so far that shows the fault.

    What it expects of a case is what held for most steps of the reductions of planted faults: after a step
    that kept the fault, the next one of the same kind keeps it too; other steps lose it.
    """

    _ask: Ask

    def __init__(self, case: Case, moves: Sequence[Simplification], possible: Callable[[Case], bool]) -> None:
        self._case, self._moves, self._possible = case, moves, possible
        self._offered = dict[tuple[Simplification, str], tuple[Candidate, ...]]()
        self.best = case

    def __call__(self, ask: Ask) -> None:
        """The whole search: the first simplification alone, the others together, then single steps.

        The first comes alone because whether anything is sharded decides most.
        """
        self._ask, self.best = ask, self._case
        if self._ask(self._case, likely=True):
            self._take(self._moves[0])
            self._leap(self._moves[1:])
            self._settle()

    def conditions(self, journal: ReductionJournal) -> tuple[str, ...]:
        """The words of all candidates that were tried from the best case and lost the fault."""
        steps = chain.from_iterable(self._steps(move, self.best) for move in self._moves)
        return tuple(dict.fromkeys(words for words, case in steps if words and journal.get(case.id) is False))

    def _leap(self, moves: Sequence[Simplification], *, likely: bool = False) -> None:
        """Applies all simplifications together, each as far as it goes.

        If that loses the fault, it tries one half of them and then the other. That one is expected to keep
        the fault where it is small: the first half is what lost it, unless both did.
        """
        moves = [move for move in moves if self._steps(move, self.best)]
        if not moves:
            return
        together, middle = self._far(moves), (len(moves) + 1) // 2
        worth = self._is_worth(together, measure(self.best))
        if worth and self._ask(together, likely=likely and len(moves) <= FEW):
            self.best = together
        elif len(moves) > 1:
            self._leap(moves[:middle])
            self._leap(moves[middle:], likely=True)

    def _far(self, moves: Iterable[Simplification]) -> Case:
        """The best case after every simplification, each repeated until it offers nothing more."""
        case = self.best
        for move in moves:
            while steps := self._steps(move, case):
                _, case = steps[0]
        return case

    def _settle(self) -> None:
        """Applies single steps until a whole round of simplifications brings none."""
        at, idle, again = 0, 0, False
        while idle < len(self._moves):
            again = self._take(self._moves[at], likely=again)
            idle = 0 if again else idle + 1
            at = at if again else (at + 1) % len(self._moves)

    def _take(self, move: Simplification, *, likely: bool = False) -> bool:
        """Continues from the first step that shows the fault; False if none does."""
        for _, simpler in self._steps(move, self.best):
            if self._ask(simpler, likely=likely):
                self.best = simpler
                return True
        return False

    def _steps(self, move: Simplification, case: Case) -> tuple[Candidate, ...]:
        """What a simplification offers that is simpler and possible."""
        steps = self._offered.get((move, case.id))
        if steps is None:
            most = measure(case)
            steps = tuple((words, each) for words, each in move(case) if self._is_worth(each, most))
            self._offered[move, case.id] = steps
        return steps

    def _is_worth(self, case: Case, most: tuple[int, ...]) -> bool:
        return is_less(case, most) and self._possible(case)
