"""The search for the simplest case: everything away at once, then back by halves, then one thing at a time until nothing more goes.

Most of a case has nothing to do with its fault, so the first tries take as much as they can (delta debugging over the simplifications, each
driven as far as it goes). What they leave is taken apart one thing at a time; when no single thing can go, what was tried last is the
list of necessary conditions. The result does not depend on how many cases run at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice

from difftest.cases.case import Case
from difftest.reduce.candidate import Candidate, Simplification
from difftest.reduce.journal import Journal
from difftest.reduce.measure import measure
from difftest.reduce.simplifications import simplifications

BUDGET = 60
"""How many cases a reduction may run: twice what the median takes."""

Shows = Callable[[Case], bool]
"""Whether a case still shows the fault, by running it; called from several threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """The simplest case found.

    `conditions` are what was tried to be taken away from it and could not, in words; `evaluations` how many cases were run now.
    `complete`: nothing is left to try; else the budget ended it.
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
    """The simplest case that still `shows` what `case` does; None when `case` does not.

    Cases that are not `possible` (the backend cannot express them) cost nothing and say nothing. Up to `parallel` run at a time. What
    `shows` raises ends the reduction; the journal lets it go on.
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
    """One reduction on its way. `best` is the simplest case seen to show the fault."""

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
        self.spent = 0

    def run(self, moves: Sequence[Simplification]) -> None:
        """All of it: the first move by itself (sharding or none decides most), the others together, then whatever is left."""
        self._take(self._steps(moves[0], self.best))
        self._leap(moves[1:])
        self._settle(moves)

    def first(self, candidates: Iterable[Candidate], below: Case | None) -> Case | None:
        """The first candidate that shows the fault; only possible ones simpler than `below` are run, a few at a time."""
        wanted = (case for _, case in candidates if below is None or self._worth(case, below))
        while window := list(islice(wanted, self._parallel)):
            answers = self._ask(window)
            if any(answers):
                return window[answers.index(True)]
        return None

    def _worth(self, case: Case, below: Case) -> bool:
        return measure(case) < measure(below) and self._possible(case)

    def _ask(self, window: Sequence[Case]) -> list[bool]:
        """Whether each case shows the fault: known, or run. `_SpentError` where the budget does not allow it."""
        unknown = {case.id: case for case in window if self._journal.get(case.id) is None}
        if self.spent + len(unknown) > self._budget:
            raise _SpentError
        self.spent += len(unknown)
        for name, shown in zip(unknown, self._pool.map(self._shows, unknown.values()), strict=True):
            self._journal.add(name, shows=shown)
        return [bool(self._journal.get(case.id)) for case in window]

    def _steps(self, move: Simplification, case: Case) -> Iterator[Candidate]:
        """What a move offers that is simpler and can be run."""
        return ((words, simpler) for words, simpler in move(case) if self._worth(simpler, case))

    def _take(self, candidates: Iterable[Candidate]) -> bool:
        """Goes on from the first candidate that shows the fault; False when none does."""
        found = self.first(candidates, self.best)
        self.best = found or self.best
        return found is not None

    def _leap(self, moves: Sequence[Simplification]) -> None:
        """Makes all moves together, each as far as it goes; where that loses the fault, one half of them and then the other."""
        moves = [move for move in moves if next(self._steps(move, self.best), None)]
        if not moves:
            return
        middle = (len(moves) + 1) // 2
        together = (self._far(moves), self._far(moves[:middle]))
        found = self.first((("", case) for case in together), self.best)
        if found == together[0]:
            self.best = found
        elif len(moves) > 1:
            self._leap(moves[:middle])
            self._leap(moves[middle:])

    def _far(self, moves: Iterable[Simplification]) -> Case:
        """The best case after every move, each made until it offers nothing more."""
        case = self.best
        for move in moves:
            while step := next(self._steps(move, case), None):
                _, case = step
        return case

    def _settle(self, moves: Sequence[Simplification]) -> None:
        """Makes single steps until a whole round of moves brings none."""
        at, idle = 0, 0
        while idle < len(moves):
            idle = 0 if self._take(self._steps(moves[at], self.best)) else idle + 1
            at = at if idle == 0 else (at + 1) % len(moves)

    def conditions(self, moves: Sequence[Simplification]) -> tuple[str, ...]:
        """What was tried from the best case and lost the fault, in words."""
        steps = chain.from_iterable(self._steps(move, self.best) for move in moves)
        return tuple(
            dict.fromkeys(words for words, case in steps if words and self._journal.get(case.id) is False)
        )
