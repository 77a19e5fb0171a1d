"""Whether a campaign compared enough for its result to mean something, and what it says about that.

A side must keep the limits as they are. A backend, and a backend on a path, has few comparisons: it is held
against the same limits where chance seldom exceeds them so far (`difftest.records.chance`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from difftest.records.chance import is_more_than
from difftest.records.comparisons import Comparisons, Counts, missing
from difftest.records.support import supported_share

MOST_REASONS = 3
"""How many reasons a line names."""

MOST_BACKENDS = 3
"""How many backends a message names."""

ADVICE = "Run the same command again once the cause is removed: it runs lost cases again"
DISAGREES = "A backend that never agrees was not compared with anything that works"
REFUSES = "What is usually refused is in difftest/records/support.json"
DOUBTS = "`inconclusive` in the table gives each reason in full; raise the limit if it is as it should be"


LEAST_COMPARED = 0.95
"""The least share of a side's comparisons that must have been made for the result to mean something."""

MOST_INCONCLUSIVE = 0.2
"""The largest share of a side's comparisons that may be inconclusive."""

MOST_REFUSED = 0.2
"""The largest share of a backend's comparisons that may be refused in the run, against the support table."""

LEAST_TO_AGREE = 3
"""A backend with at least this many requested comparisons must agree in one of them."""

ALMOST_NONE = 0.25
"""The share of what a backend usually expresses of a path, as recorded, that it must have expressed."""

FEWEST = 0.01
"""The share of a path that any other backend must express, unless it expresses nothing of it."""

NEVER_WORKED = MappingProxyType[str, str]({})
"""No fault explains every run of a backend: by fingerprint the issue of such a fault."""


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


def excused(comparisons: Comparisons, never_worked: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each backend of which a fault of the ledger explains every run."""
    for backend, counts in comparisons.backends().items():
        if issues := _excuses(counts, never_worked):
            shown = f"{issues.total()} of {counts.completed} comparisons show {' and '.join(sorted(issues))}"
            yield f"{backend}: {shown}; this backend never worked here"


def described(comparisons: Comparisons) -> dict[str, Any]:
    """The counts of each side, with those of its backends and their paths, for JSON."""
    cells = comparisons.cells
    return {
        side: _described(counts)
        | {
            "backends": {
                name: _described(own)
                | {"paths": {path: _described(cell) for (of, path), cell in cells.items() if of == name}}
                for name, own in comparisons.backends(side).items()
            }
        }
        for side, counts in comparisons.sides.items()
    }


def shortfalls(
    comparisons: Comparisons,
    limits: Limits,
    never_worked: Mapping[str, str] = NEVER_WORKED,
    *,
    must_agree: bool = True,
) -> list[str]:
    """What is missing, why, and what to do, for each side, backend and path of which too little was compared.

    A path is not named where its backend is, nor a backend where nothing of its side was compared.
    `never_worked` has by fingerprint the issues of faults that explain every run of a backend. A recording
    keeps runs that no backend need agree in (not `must_agree`).
    """
    messages = [
        message
        for side, counts in comparisons.sides.items()
        if (message := _shortfall(f"side {side}", counts, comparisons.backends(side), limits))
    ]
    cells = comparisons.cells
    for backend, counts in comparisons.backends().items():
        if must_agree and limits.least_compared and never_agrees(counts, never_worked):
            zero = f"0 of {counts.requested} comparisons agreed"
            messages.append(f"{backend}: {zero} ({_endings(counts)}). {DISAGREES}")
        elif message := _of_few(f"backend {backend}", backend, counts, limits):
            messages.append(message)
        else:
            own = {path: cell for (name, path), cell in cells.items() if name == backend}
            messages += filter(
                None,
                (_of_few(f"{backend} on {path}", backend, cell, limits, path) for path, cell in own.items()),
            )
    return messages


def never_agrees(counts: Counts, never_worked: Mapping[str, str] = NEVER_WORKED) -> bool:
    """Whether a backend should have agreed by now and has not, and no fault ends all of its runs."""
    return counts.requested >= LEAST_TO_AGREE and not counts.agreed and not _excuses(counts, never_worked)


def _excuses(counts: Counts, never_worked: Mapping[str, str]) -> Counter[str]:
    """How many runs of a backend each fault ended that ends all; empty unless that is most of them."""
    issues = Counter[str]()
    for name, number in counts.diverged.items():
        if name in never_worked:
            issues[never_worked[name]] += number
    return issues if not counts.agreed and issues.total() > counts.completed / 2 else Counter()


def _endings(counts: Counts) -> str:
    """How comparisons ended of which none agreed."""
    diverged = [f"{counts.diverged.total()} diverged"] if counts.diverged else []
    return ", ".join(diverged + ([why(counts)] if missing(counts) else []))


def _of_few(subject: str, backend: str, counts: Counts, limits: Limits, path: str = "") -> str:
    """Why the result of a backend, or of it on a path, means too little; empty where it does not."""
    lost, refused, requested = counts.lost.total(), counts.not_run.total(), counts.requested
    unsupported, inconclusive = counts.unsupported.total(), counts.inconclusive.total()
    if is_more_than(lost, requested, 1.0 - limits.least_compared):
        few = f"{requested - lost} of {requested} comparisons were made"
        limit = f"--least-compared is {limits.least_compared:g}"
        return f"{subject}: {few}, {limit}; {why(counts)}. {ADVICE}"
    if limits.least_compared and refused > 1 and is_more_than(refused, requested, MOST_REFUSED):
        unusual = f"{refused} of {requested} comparisons were refused in the run, which is not usual"
        return f"{subject}: {unusual}; {why(counts)}. {REFUSES}"
    if is_more_than(inconclusive, counts.judged, limits.most_inconclusive):
        share = f"{inconclusive} of {counts.judged} comparisons are inconclusive"
        limit = f"--most-inconclusive is {limits.most_inconclusive:g}"
        return f"{subject}: {share}, {limit}; {why(counts)}. {DOUBTS}"
    usual, total = supported_share(backend, path) if path else 0.0, requested + unsupported
    expected = ALMOST_NONE * usual if usual is not None else FEWEST * (requested > 0)
    if limits.least_compared and is_more_than(unsupported, total, 1.0 - expected):
        words = f"{unsupported} of {total} cases are not supported"
        recorded = f", usually {1 - usual:.0%}" if usual is not None else ""
        return f"{subject}: {words}{recorded}; {_refusals(counts)}"
    return ""


def _shortfall(subject: str, counts: Counts, backends: Mapping[str, Counts], limits: Limits) -> str:
    """Why a side's result means too little; empty where it does not."""
    if not counts.requested:
        if not limits.least_compared:
            return ""
        unsupported = counts.unsupported.total()
        reason = f"no backend supports any of them: {why(counts)}" if unsupported else "no case was run"
        return f"{subject}: nothing was compared, {reason} (`difftest support` shows which path is supported)"
    if counts.compared_share < limits.least_compared:
        done = f"{counts.judged} of {counts.requested} comparisons were made"
        none = "" if counts.completed else ", none with a result"
        limit = f"--least-compared is {limits.least_compared:g}"
        return f"{subject}: {done}{none}, {limit}; {_blamed(backends)}. {ADVICE}"
    if counts.inconclusive_share > limits.most_inconclusive:
        share = f"{counts.inconclusive.total()} of {counts.judged} comparisons are inconclusive"
        limit = f"--most-inconclusive is {limits.most_inconclusive:g}"
        return f"{subject}: {share}, {limit}; {_blamed(backends)}. {DOUBTS}"
    return ""


def _refusals(counts: Counts) -> str:
    """The most frequent reasons why something is not supported."""
    each = counts.unsupported.most_common(MOST_REASONS)
    return ", ".join(f"{number} unsupported ({reason})" for reason, number in each)


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
    each = missing(counts) or [("unsupported", *counted) for counted in counts.unsupported.most_common()]
    words = [f"{number} {ended} ({reason})" for ended, reason, number in each[:MOST_REASONS]]
    left = sum(number for *_, number in each[MOST_REASONS:])
    return ", ".join(words + ([f"{left} for other reasons"] if left else [])) or "none requested"


def _described(counts: Counts) -> dict[str, Any]:
    return {
        "requested": counts.requested,
        "completed": counts.completed,
        "agreed": counts.agreed,
        "inconclusive": dict(counts.inconclusive),
        "lost": dict(counts.lost),
        "refused": dict(counts.not_run),
        "unsupported": dict(counts.unsupported),
    }
