"""Generated cases that many tests look at, shared by all processes of a test run: a hundred takes seconds."""

import fcntl
from pathlib import Path
from typing import IO

import msgspec

from difftest.cases.case import Case
from generators.cases import case_at
from generators.paths import chosen
from generators.sequence import split

SEED = 20
ALONE, IN_BLOCKS = split(chosen(None))
"""The paths whose cases run one by one, and those of programs, which come in blocks."""


class GeneratedCases:
    """Hundreds of cases of `SEED` on the paths `ALONE`.

    A process keeps what it draws in `folder` for the others.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._hundreds = folder, dict[int, tuple[Case, ...]]()

    def hundreds(self, *numbers: int) -> tuple[tuple[Case, ...], ...]:
        """Cases 100 x number to 100 x number + 99, for each number.

        While another process draws one hundred, this one draws another.
        """
        while missing := [number for number in numbers if number not in self._hundreds]:
            if not any(self._load_or_draw(number, wait=False) for number in missing):
                self._load_or_draw(missing[0], wait=True)
        return tuple(self._hundreds[number] for number in numbers)

    def _load_or_draw(self, number: int, *, wait: bool) -> bool:
        """Whether the hundred is there now; False if another process draws it and this one is not to wait."""
        with (self._folder / f"hundred{number}.json").open("a+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            self._hundreds[number] = _read(file) or _draw(file, number)
        return True


def _read(file: IO[bytes]) -> tuple[Case, ...]:
    file.seek(0)
    return tuple(Case.from_json(line) for line in file.read().splitlines())


def _draw(file: IO[bytes], number: int) -> tuple[Case, ...]:
    cases = tuple(case_at(SEED, 100 * number + index) for index in range(100))
    file.write(b"".join(msgspec.json.format(case.to_json(), indent=-1) + b"\n" for case in cases))
    return cases
