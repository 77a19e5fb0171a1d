"""Figures of the pages that follow from what is generated, or from which plug-ins there are.

    python tools/figures.py

It computes every figure of `docs/figures.toml` again, says which are out of date, and writes these there and
into their pages.
"""

import re
import sys
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path

import msgspec

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT)]

from difftest.cases.case import Case  # noqa: E402  found on the path above
from difftest.cases.twins import twin  # noqa: E402
from difftest.ground import plugins  # noqa: E402
from generators.cases import case_at  # noqa: E402
from workers.references import operators  # noqa: E402

FILE = ROOT / "docs" / "figures.toml"
DRAWN = 130
MOST_RANKS = 4


class Figure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A figure: its `value`, the Python expression that gives it, and the words around it in a page.

    `{}` in the `text` stands for the value.
    """

    page: str
    text: str
    value: str
    command: str

    def written(self) -> str:
        """The text as it is in the page."""
        return self.text.format(self.value)

    def now(self) -> str:
        """The value as it is today."""
        names = {"count": lambda package: len(plugins.names(package)), "first": first, "defined": defined}
        return str(eval(self.command, names))  # noqa: S307  of a file in this repository


def read() -> dict[str, Figure]:
    """All figures, by name."""
    return msgspec.toml.decode(FILE.read_bytes(), type=dict[str, Figure])


def defined(most: int) -> int:
    """How many of the first `most` programs of seed 3 have definitions of all their operators."""
    drawn = (case_at(3, number, paths=("operators",), max_world_size=MOST_RANKS) for number in range(most))
    return sum(not operators.lacks(twin(case)) for case in drawn)


def first(path: str, most: int, wanted: Callable[[Case], object]) -> str:
    """The numbers of the first `most` cases of seed 0 on a path that are as `wanted`, of `DRAWN`."""
    numbers = (number for number in range(DRAWN) if wanted(_drawn(path, number)))
    return ", ".join(map(str, islice(numbers, most)))


@cache
def _drawn(path: str, number: int) -> Case:
    return case_at(0, number, paths=(path,), max_world_size=MOST_RANKS)


def renew(name: str, old: Figure, value: str) -> None:
    """Writes another value of a figure into its page and into `FILE`."""
    new = msgspec.structs.replace(old, value=value)
    page = ROOT / old.page
    page.write_text(page.read_text().replace(old.written(), new.written()))
    section = re.compile(rf'(^\[{name}\]$(?:\n.+)*?\nvalue = )".*"', re.MULTILINE)
    FILE.write_text(section.sub(rf'\g<1>"{value}"', FILE.read_text()))


def main() -> None:
    """Renews what is out of date."""
    for name, figure in read().items():
        if (value := figure.now()) != figure.value:
            print(f"{figure.page}: {name} was {figure.value}, and is {value}")
            renew(name, figure, value)


if __name__ == "__main__":
    main()
