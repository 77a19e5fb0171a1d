"""Between which versions a fault came or went: a binary search over versions that may answer unreliably.

Nothing here installs or runs anything: the caller passes a function that tests one version
(`difftest.commands.bisect` passes one that builds environments). A version that gives no answer, because it
cannot be installed or the script fails in some other way, is skipped and named.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from difftest.ground.errors import UsageError

Answer: TypeAlias = Literal["shown", "absent", "unreliable", "untold"]
"""What the runs of one version say of the fault; `untold`: nothing."""

Verdict: TypeAlias = Literal["came", "went", "in all", "in none", "unreliable", "untold"]
"""What the search says; `came` is appeared, `went` disappeared, `untold` that no version gave an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionResult:
    """One version: `shown` of `times` runs showed the fault and `absent` showed that it is absent.

    The others gave no answer.

    `output` is what the last run printed, or why nothing could run.
    """

    version: str
    shown: int = 0
    absent: int = 0
    times: int = 0
    output: str = ""

    @property
    def answer(self) -> Answer:
        """The runs' answer; `untold` as soon as one run gave none."""
        if not self.times or self.shown + self.absent < self.times:
            return "untold"
        if self.shown and self.absent:
            return "unreliable"
        return "shown" if self.shown else "absent"


RunVersion: TypeAlias = Callable[[str], VersionResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisected:
    """The end of a search: `last` is the last version before the fault came or went, `first` the next one.

    `results` has the versions that were tested, in the order given. For `in all` and `in none` these are the
    two ends only, unless every version was to be tested.
    """

    verdict: Verdict
    results: tuple[VersionResult, ...]
    last: str = ""
    first: str = ""


def bisect(versions: Sequence[str], run_version: RunVersion, *, everyone: bool = False) -> Bisected:
    """Searches `versions`, oldest first.

    `everyone` tests each of them, for a fault that may have appeared and disappeared more than once.
    `UsageError` for fewer than two versions, or one named twice.
    """
    if len(set(versions)) != len(versions) or len(versions) < 2:  # noqa: PLR2004  between two is the least
        listed = ", ".join(versions) or "none"
        msg = f"the versions are {listed}; give at least two different ones, oldest first"
        raise UsageError(msg)
    results: dict[str, VersionResult] = {}

    def answer(place: int) -> Answer:
        version = versions[place]
        if version not in results:
            results[version] = run_version(version)
        return results[version].answer

    places = [place for place in range(len(versions)) if everyone and answer(place) != "untold"]
    low = _first_with_answer(range(len(versions)), answer)
    high = _first_with_answer(reversed(range(len(versions))), answer)
    if (
        not everyone
        and low is not None
        and high is not None
        and {answer(low), answer(high)} == {"shown", "absent"}
    ):
        low, high = _narrow(low, high, answer)
    ends = [place for place in (low, high) if place is not None]
    return _conclude(versions, results, places or ends)


def _first_with_answer(places: Iterable[int], answer: Callable[[int], Answer]) -> int | None:
    return next((place for place in places if answer(place) != "untold"), None)


def _narrow(low: int, high: int, answer: Callable[[int], Answer]) -> tuple[int, int]:
    """Halves the range between two ends with different answers.

    Versions without an answer are skipped, starting from the one nearest to the middle. An unreliable one
    ends the search.
    """
    while between := sorted(range(low + 1, high), key=lambda place: abs(2 * place - low - high)):
        middle = _first_with_answer(between, answer)
        if middle is None:
            break
        if answer(middle) == "unreliable":
            return middle, middle
        low, high = (middle, high) if answer(middle) == answer(low) else (low, middle)
    return low, high


def _conclude(
    versions: Sequence[str], results: Mapping[str, VersionResult], places: Sequence[int]
) -> Bisected:
    """The verdict that follows from the answers at `places`, in order."""
    tested = tuple(results[version] for version in versions if version in results)
    answers = [results[versions[place]].answer for place in places]
    if not answers:
        return Bisected(verdict="untold", results=tested)
    changes = [place for place in range(1, len(answers)) if answers[place] != answers[place - 1]]
    if "unreliable" in answers or len(changes) > 1:
        return Bisected(verdict="unreliable", results=tested)
    if not changes:
        return Bisected(verdict="in all" if answers[0] == "shown" else "in none", results=tested)
    last, first = versions[places[changes[0] - 1]], versions[places[changes[0]]]
    verdict: Verdict = "came" if answers[-1] == "shown" else "went"
    return Bisected(verdict=verdict, results=tested, last=last, first=first)
