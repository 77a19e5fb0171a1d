"""`index.html`: what each release changed, by package, with what was tried."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from difftest.findings.faults import age
from difftest.findings.flips import Became, Flip, Tried
from reports.page.template import template
from reports.watch.words import explanation, title

FILENAME = "index.html"


class Row(NamedTuple):
    """A flip as the page shows it: what it became, in a line and a sentence, and the script that shows it."""

    became: str
    title: str
    explanation: str
    script: str


class Column(NamedTuple):
    """A release, with how many things were tried on it, and how many of them fail, pass or are unclear."""

    package: str
    release: str
    tried: int
    alive: int
    fixed: int
    unclear: int


def render(flips: Sequence[Flip], tried: Sequence[Tried], problems: Mapping[str, str]) -> bytes:
    """The page, one file that sends no request."""
    packages: dict[str, list[Row]] = {}
    for flip in flips:
        row = Row(flip.became, title(flip), explanation(flip), flip.after.script)
        packages.setdefault(flip.package, []).append(row)
    counts = Counter(flip.became for flip in flips)
    page = template("watch.html").render(
        counts=[(str(became), counts[became]) for became in Became],
        packages=packages,
        releases=_releases(tried),
        problems=problems,
    )
    return page.encode()


def _releases(tried: Sequence[Tried]) -> list[Column]:
    states = Counter((one.package, one.release, one.state) for one in tried)
    every = sorted({(one.package, one.release) for one in tried}, key=lambda pair: (pair[0], age(pair[1])))
    return [
        Column(*pair, tried=sum(by_state), alive=by_state[0], fixed=by_state[1], unclear=by_state[2])
        for pair in every
        for by_state in [tuple(states[*pair, state] for state in ("alive", "fixed", "unclear"))]
    ]
