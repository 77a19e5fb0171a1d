"""What a fix is worth: what the case of a fault, its neighbours and others showed before it and with it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from difftest.jobs.watch.case_states import CaseState


class Role(StrEnum):
    """What a case is for."""

    CASE = "case"
    NEIGHBOUR = "neighbour"
    COUNTEREXAMPLE = "counterexample"


class Fix(StrEnum):
    """How far a fix goes."""

    FIXED = "fixed"
    """The case agrees, and so does every neighbour that showed the fault."""

    PARTLY = "partly fixed"
    """Some neighbours that showed the fault are still wrong, or the case is wrong in another way."""

    OVERFITTED = "overfitted"
    """The case agrees, and no neighbour that showed the fault does."""

    NOT_FIXED = "not fixed"
    """The case still shows it."""

    UNDECIDED = "undecided"
    """The case did not show the fault before, or with the fix nothing is decided, as beside another fault."""


class Outcome(StrEnum):
    """What became of one case."""

    GONE = "gone"
    THERE = "still there"
    OTHERWISE = "wrong in another way"
    """It showed the fault, and with the fix it shows something else."""

    COVERED = "covered by another known fault"
    """It showed the fault, and with the fix it shows another one, so that it says nothing of the fix."""

    BROKE = "broke"
    """It was right before."""

    BESIDE = "another fault changed"
    """It showed another fault before, and with the fix it shows something else, or agrees."""

    AS_BEFORE = "as before"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePair:
    """One case before the fix and with it; `words` say what it is, as `3 ranks on tp`.

    `fault_before` and `fault_after` are the faults that it showed: `subject` is the one to be fixed, other
    names are those of the ledger. Empty where it showed none, or one that nobody knows.
    """

    role: Role
    words: str
    case: str
    before: CaseState
    after: CaseState
    fault_before: str
    fault_after: str
    subject: str

    @property
    def was(self) -> bool:
        """Whether it showed the fault before the fix."""
        return self.fault_before == self.subject

    @property
    def is_there(self) -> bool:
        """Whether it shows the fault with the fix."""
        return self.fault_after == self.subject

    @property
    def outcome(self) -> Outcome:
        """What became of it."""
        if "unclear" in {self.before.state, self.after.state}:
            return Outcome.UNDECIDED
        if self.was:
            if self.is_there:
                return Outcome.THERE
            if self.after.state == "fixed":
                return Outcome.GONE
            return Outcome.COVERED if self.fault_after else Outcome.OTHERWISE
        if self.after.state == "alive" and self.before.state == "fixed":
            return Outcome.BROKE
        return Outcome.AS_BEFORE if self.before.shown == self.after.shown else Outcome.BESIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """The verdict on a fix: `fix`, and the pairs that it broke."""

    fix: Fix
    pairs: tuple[CasePair, ...]

    @property
    def broken(self) -> tuple[CasePair, ...]:
        """The cases that were right before the fix and are wrong with it."""
        return tuple(pair for pair in self.pairs if pair.outcome is Outcome.BROKE)


def validated(pairs: Iterable[CasePair]) -> Validated:
    """The verdict on all pairs, of which one is the case's own."""
    pairs = tuple(pairs)
    own = next(pair for pair in pairs if pair.role is Role.CASE)
    near = [pair for pair in pairs if pair.role is Role.NEIGHBOUR and pair.was]
    gone = [pair for pair in near if pair.outcome is Outcome.GONE]
    left = [pair for pair in near if pair.outcome in {Outcome.THERE, Outcome.OTHERWISE}]
    fix = Fix.UNDECIDED
    if own.is_there and own.was:
        fix = Fix.NOT_FIXED
    elif own.was and own.outcome is Outcome.OTHERWISE:
        fix = Fix.PARTLY
    elif own.outcome is Outcome.GONE:
        fix = Fix.FIXED if not left else Fix.PARTLY if gone else Fix.OVERFITTED
    elif own.outcome is Outcome.COVERED and (gone or left):
        fix = Fix.PARTLY if left else Fix.FIXED
    return Validated(fix=fix, pairs=pairs)
