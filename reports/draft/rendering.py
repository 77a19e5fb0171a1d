"""Writes a draft in the form of a tracker, within the lines that a maintainer reads.

A tracker is a template, `reports/templates/issues/<tracker>.md.jinja`, which asks for the parts of a draft. A
maintainer reads at most `MOST_FIRST` lines before the details: a script or a graph for which there is no room
stands in a part that unfolds.
"""

import re
from functools import cache
from typing import ClassVar, Protocol

from jinja2 import Environment, PackageLoader, StrictUndefined

from difftest.ground.printable import printable
from reports.draft.markup import code, fenced, plain, prose

FOLDER, SUFFIX = "issues", ".md.jinja"
MOST_FIRST, MOST_LINES = 45, 150
"""The most lines before the details, and the most in all."""

DETAILS = "<details>"
_BLANK = re.compile(r"\n{3,}")


class Drafted(Protocol):
    """What is drafted: a finding's `Draft`, or another for which there is a file of parts."""

    PARTS: ClassVar[str]
    """The template whose macros say what a tracker's form asks for."""


def render(draft: Drafted, tracker: str) -> str:
    """The draft in the form of `tracker`, which has a template.

    Where the lines would be too many, no log is quoted (not `logged`). Else the script or the graph unfolds
    (`folded` is 1), or both (2), or the script that made a graph is attached (3).
    """
    template = _environment().get_template(f"{FOLDER}/{tracker}{SUFFIX}")
    for folded, logged in ((0, True), (0, False), (1, True), (1, False), (2, False), (3, False)):
        whole = template.render(it=draft, folded=folded, logged=logged, tracker=tracker)
        text = printable(_BLANK.sub("\n\n", whole).strip()) + "\n"
        if first_lines(text) <= MOST_FIRST and text.count("\n") <= MOST_LINES:
            break
    return text


def first_lines(text: str) -> int:
    """How many lines of a draft stand before its first details."""
    return text.partition(f"\n{DETAILS}")[0].count("\n") + 1


@cache
def _environment() -> Environment:
    environment = Environment(  # noqa: S701  it is no HTML: see `reports.draft.markup`
        loader=PackageLoader("reports"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"code": code, "fenced": fenced, "plain": plain, "prose": prose}
    return environment
