"""Lines for a terminal: cut to its width, and coloured where it shows colours.

Elsewhere, as in a log, lines are whole and plain. What is written is made printable either way: a text from a
run cannot command the terminal.
"""

import os
import shutil
import sys
from enum import StrEnum

import click

from difftest.ground.printable import printable

NO_COLOR = "NO_COLOR"
"""The variable of https://no-color.org: whoever sets it wants no colours."""

CUT = "\N{HORIZONTAL ELLIPSIS}"


class Style(StrEnum):
    """What a part of a line is, with the codes that a terminal colours it by (ECMA-48, SGR)."""

    ALARM = "1;31"
    GOOD = "32"
    KNOWN = "33"
    SOFT = "2"
    STRONG = "1"
    PLAIN = ""


Part = str | tuple[Style, str]


def print_line(*parts: Part, last: str = "") -> None:
    """Prints one line on standard output. Where it is too long, what comes before its end `last` is cut."""
    stream = getattr(sys.stdout, "stream", sys.stdout)
    styled = [part if isinstance(part, tuple) else (Style.PLAIN, part) for part in parts]
    clean = [(style, printable(text)) for style, text in styled]
    if not stream.isatty():
        click.echo("".join(text for _, text in clean) + printable(last), file=stream)
        return
    room = shutil.get_terminal_size().columns - len(last)
    shown = "".join(_coloured(style, text) for style, text in fitted(clean, room))
    click.echo(shown + _coloured(Style.SOFT, printable(last)), file=stream, color=True)


def fitted(parts: list[tuple[Style, str]], room: int) -> list[tuple[Style, str]]:
    """The parts with as many characters as there is room for; the last of them says that there are more."""
    if sum(len(text) for _, text in parts) <= room:
        return parts
    kept, left = list[tuple[Style, str]](), max(room - len(CUT), 0)
    for style, text in parts:
        kept.append((style, text[:left]))
        left -= len(kept[-1][1])
    return [*kept, (Style.PLAIN, CUT)]


def _coloured(style: Style, text: str) -> str:
    if not style or not text or os.environ.get(NO_COLOR):
        return text
    return f"\x1b[{style}m{text}\x1b[0m"
