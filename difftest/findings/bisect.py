"""Between which versions a fault came or went: a binary search that asks each version several times.

Nothing here installs or runs anything: who asks a version comes in as a callable, `difftest.commands.bisect` gives one that builds
environments. A version that cannot tell (nothing to install, a script that fails in some other way) is passed over, and named.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from difftest.errors import UsageError

Answer: TypeAlias = Literal["shown", "absent", "unreliable", "untold"]
Verdict: TypeAlias = Literal["came", "went", "in all", "in none", "unreliable", "untold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One version: how many of `times` runs showed the fault and how many showed that it is absent; the others told neither.

    `said` is the last thing that was printed, or why nothing could be run.
    """

    version: str
    shown: int = 0
    absent: int = 0
    times: int = 0
    said: str = ""

    @property
    def answer(self) -> Answer:
        """`untold` as soon as one run told neither."""
        if not self.times or self.shown + self.absent < self.times:
            return "untold"
        if self.shown and self.absent:
            return "unreliable"
        return "shown" if self.shown else "absent"


Ask: TypeAlias = Callable[[str], Asked]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisected:
    """What came of it: `last` is the last version of the old kind, `first` the first of the new one, where the fault came or went.

    `asked` has the versions that were asked, in the order given. `in all` and `in none` were asked of both ends only, unless all were.
    """

    verdict: Verdict
    asked: tuple[Asked, ...]
    last: str = ""
    first: str = ""


def bisect(versions: Sequence[str], ask: Ask, *, everyone: bool = False) -> Bisected:
    """Searches `versions`, oldest first; `everyone`: asks each of them, where a fault may have come and gone again.

    `UsageError` for fewer than two versions, or one named twice.
    """
    if len(set(versions)) != len(versions) or len(versions) < 2:  # noqa: PLR2004  between two is the least
        msg = f"the versions are {', '.join(versions) or 'none'}; give at least two different ones, oldest first"
        raise UsageError(msg)
    asked: dict[str, Asked] = {}

    def answer(place: int) -> Answer:
        version = versions[place]
        if version not in asked:
            asked[version] = ask(version)
        return asked[version].answer

    places = [place for place in range(len(versions)) if everyone and answer(place) != "untold"]
    low = _first_telling(range(len(versions)), answer)
    high = _first_telling(reversed(range(len(versions))), answer)
    if (
        not everyone
        and low is not None
        and high is not None
        and {answer(low), answer(high)} == {"shown", "absent"}
    ):
        low, high = _narrow(low, high, answer)
    return _concluded(versions, asked, places or [place for place in (low, high) if place is not None])


def _first_telling(places: Iterable[int], answer: Callable[[int], Answer]) -> int | None:
    return next((place for place in places if answer(place) != "untold"), None)


def _narrow(low: int, high: int, answer: Callable[[int], Answer]) -> tuple[int, int]:
    """Halves the way between two ends that answer differently; versions that cannot tell are passed over, nearest to the middle first."""
    while between := sorted(range(low + 1, high), key=lambda place: abs(2 * place - low - high)):
        middle = _first_telling(between, answer)
        if middle is None:
            break
        if answer(middle) == "unreliable":
            return middle, middle
        low, high = (middle, high) if answer(middle) == answer(low) else (low, middle)
    return low, high


def _concluded(versions: Sequence[str], asked: Mapping[str, Asked], places: Sequence[int]) -> Bisected:
    """What the answers at `places`, in order, come to."""
    told = tuple(asked[version] for version in versions if version in asked)
    answers = [asked[versions[place]].answer for place in places]
    if not answers:
        return Bisected(verdict="untold", asked=told)
    changes = [place for place in range(1, len(answers)) if answers[place] != answers[place - 1]]
    if "unreliable" in answers or len(changes) > 1:
        return Bisected(verdict="unreliable", asked=told)
    if not changes:
        return Bisected(verdict="in all" if answers[0] == "shown" else "in none", asked=told)
    last, first = versions[places[changes[0] - 1]], versions[places[changes[0]]]
    return Bisected(verdict="came" if answers[-1] == "shown" else "went", asked=told, last=last, first=first)
