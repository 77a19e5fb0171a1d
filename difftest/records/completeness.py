"""Whether a campaign compared enough for its result to mean something, and what it says about that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from difftest.records.comparisons import Comparisons, Counts, missing

MOST_REASONS = 3
"""How many reasons a line names."""

MOST_BACKENDS = 3
"""How many backends a message names."""

ADVICE = "Run the same command again once the cause is removed: it runs lost cases again"
DOUBTS = "`inconclusive` in the table gives each reason in full; raise the limit if it is as it should be"


LEAST_COMPARED = 0.95
"""The least share of a side's comparisons that must have been made for the result to mean something."""

MOST_INCONCLUSIVE = 0.2
"""The largest share of a side's comparisons that may be inconclusive."""


class Limits(Protocol):
    """How much of a side must have been compared, as shares from 0 to 1."""

    @property
    def least_compared(self) -> float:
        """The least share of the requested comparisons that must have been made."""

    @property
    def most_inconclusive(self) -> float:
        """The largest share of those made that may be inconclusive."""


@dataclass(frozen=True, slots=True)
class UsualLimits:
    """The limits where nobody gave others."""

    least_compared: float = LEAST_COMPARED
    most_inconclusive: float = MOST_INCONCLUSIVE


def lines(comparisons: Comparisons) -> Iterator[str]:
    """A line for each side, and one for each backend that lacks a comparison."""
    width = max(map(len, comparisons.sides), default=0) + 1
    for side, counts in comparisons.sides.items():
        yield f"{side + ':':<{width}} {in_words(counts)}"
        for backend, own in comparisons.backends(side).items():
            if own.completed < own.requested:
                yield f"  {backend}: {in_words(own)}"


def described(comparisons: Comparisons) -> dict[str, Any]:
    """The counts of each side, with those of its backends, for JSON."""
    return {
        side: _described(counts)
        | {"backends": {name: _described(own) for name, own in comparisons.backends(side).items()}}
        for side, counts in comparisons.sides.items()
    }


def shortfalls(comparisons: Comparisons, limits: Limits) -> list[str]:
    """For each side of which too little was compared, what is missing, why, and what to do."""
    return [
        message
        for side, counts in comparisons.sides.items()
        if (message := _shortfall(side, counts, comparisons.backends(side), limits))
    ]


def _shortfall(side: str, counts: Counts, backends: Mapping[str, Counts], limits: Limits) -> str:
    """Why a side's result means too little; empty where it does not."""
    if not counts.requested:
        if not limits.least_compared:
            return ""
        unsupported = counts.unsupported.total()
        reason = f"no backend supports any of them: {why(counts)}" if unsupported else "no case was run"
        return (
            f"side {side}: nothing was compared, {reason} (`difftest support` shows which path is supported)"
        )
    if counts.compared_share < limits.least_compared:
        done = f"{counts.judged} of {counts.requested} comparisons were made"
        none = "" if counts.completed else ", none with a result"
        limit = f"--least-compared is {limits.least_compared:g}"
        return f"side {side}: {done}{none}, {limit}; {_blamed(backends)}. {ADVICE}"
    if counts.inconclusive_share > limits.most_inconclusive:
        share = f"{counts.inconclusive.total()} of {counts.judged} comparisons are inconclusive"
        limit = f"--most-inconclusive is {limits.most_inconclusive:g}"
        return f"side {side}: {share}, {limit}; {_blamed(backends)}. {DOUBTS}"
    return ""


def _blamed(backends: Mapping[str, Counts]) -> str:
    """The backends that lack most comparisons, each with its reasons."""
    lacking = {name: own for name, own in backends.items() if own.completed < own.requested}
    worst = sorted(lacking, key=lambda name: lacking[name].completed - lacking[name].requested)
    named = [f"{name}: {why(lacking[name])}" for name in worst[:MOST_BACKENDS]]
    others = len(worst) - len(named)
    return "; ".join(named + ([f"{others} more backends"] if others else []))


def in_words(counts: Counts) -> str:
    """How some comparisons ended, in one line."""
    head = f"{counts.completed} of {counts.requested} comparisons completed"
    reasons = f", {why(counts)}" if counts.completed < counts.requested else ""
    unsupported = counts.unsupported.total()
    return f"{head}{reasons}" + (f"; {unsupported} more not supported" if unsupported else "")


def why(counts: Counts) -> str:
    """What is missing by how it ended and why, as `4 lost (a node was lost)`; the most frequent first.

    What is not supported only counts where nothing was requested. `none requested` where there is nothing.
    """
    each = missing(counts) or [("unsupported", *one) for one in counts.unsupported.most_common()]
    words = [f"{number} {ended} ({reason})" for ended, reason, number in each[:MOST_REASONS]]
    left = sum(number for *_, number in each[MOST_REASONS:])
    return ", ".join(words + ([f"{left} for other reasons"] if left else [])) or "none requested"


def _described(counts: Counts) -> dict[str, Any]:
    return {
        "requested": counts.requested,
        "completed": counts.completed,
        "inconclusive": dict(counts.inconclusive),
        "lost": dict(counts.lost),
        "refused": dict(counts.refused),
        "unsupported": dict(counts.unsupported),
    }
