"""`index.html`: what each release broke, changed and fixed, with what was tried."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from difftest.findings.faults import release_order
from difftest.findings.flips import Became, Flip, Tried
from reports.page.template import template
from reports.watch.words import release, shown, subject

FILENAME = "index.html"


class FlipRow(NamedTuple):
    """A flip on the page: what it is of, the script that shows it, and what both releases showed."""

    subject: str
    script: str
    before: str
    after: str


class ReleaseColumn(NamedTuple):
    """A release, with how many things were tried on it, and how many of them fail, pass or are unclear."""

    package: str
    release: str
    tried: int
    alive: int
    fixed: int
    unclear: int


def render(flips: Sequence[Flip], tried: Sequence[Tried], problems: Mapping[str, str]) -> bytes:
    """The page, one file that sends no request."""
    by_release: dict[str, list[FlipRow]] = {}
    for flip in flips:
        row = FlipRow(subject(flip), flip.after.script, shown(flip.before), shown(flip.after))
        by_release.setdefault(release(flip), []).append(row)
    counts = Counter(flip.became for flip in flips)
    page = template("watch.html").render(
        counts=[(str(became), counts[became]) for became in Became],
        by_release=by_release,
        releases=_releases(tried),
        problems=problems,
    )
    return page.encode()


def _releases(tried: Sequence[Tried]) -> list[ReleaseColumn]:
    states = Counter((entry.package, entry.release, entry.state) for entry in tried)
    every = sorted(
        {(entry.package, entry.release) for entry in tried},
        key=lambda pair: (pair[0], release_order(pair[1])),
    )
    return [
        ReleaseColumn(*pair, tried=sum(by_state), alive=by_state[0], fixed=by_state[1], unclear=by_state[2])
        for pair in every
        for by_state in [tuple(states[*pair, state] for state in ("alive", "fixed", "unclear"))]
    ]
