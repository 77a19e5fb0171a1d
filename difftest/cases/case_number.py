"""The number of a case: which cases are numbered together, its place among them, and its input.

Records keep a number as one whole number, in which the series and the input are multiples of powers of ten.
Nothing else calculates with that.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from difftest.ground.errors import UsageError


class Series(StrEnum):
    """Cases that are numbered together, from 0, so that the cases of one change no number of another."""

    CASE = "case"
    """Generated cases; those of paths in blocks only where no other paths are chosen."""

    PROGRAM = "program"
    """Generated cases of paths whose cases come in blocks, where other paths are chosen beside them."""

    KNOWN = "known"
    """The cases of known faults."""

    CONTROL = "control"
    """Cases in their plain form (`difftest.cases.resets.plain`): the index is the recorded number of one."""

    REFERENCE = "reference"
    """Twins of cases (`difftest.cases.twins`): the index is the recorded number of the case."""


FURTHER = 10**10
"""In a recorded number, the first further input of a case."""

FIRSTS = {
    Series.CASE: 0,
    Series.PROGRAM: 10**9,
    Series.KNOWN: 10**12,
    Series.CONTROL: 10**13,
    Series.REFERENCE: 10**15,
}
"""The recorded number of the first case of each series."""

_TEXT = re.compile(r"(?:(?P<series>[a-z]+)-)?(?P<index>\d{1,18})(?:/(?P<input>\d{1,3}))?")


@dataclass(frozen=True, slots=True, order=True)
class CaseNumber:
    """Case `index` of a series, from 0, with its own `input` 0 or a further one.

    >>> str(CaseNumber(3, Series.PROGRAM)), str(CaseNumber(7, input=2))
    ('program-3', '7/2')
    """

    index: int
    series: Series = Series.CASE
    input: int = 0

    def __str__(self) -> str:
        series = "" if self.series == Series.CASE else f"{self.series}-"
        return f"{series}{self.index}" + (f"/{self.input}" if self.input else "")

    @property
    def recorded(self) -> int:
        """The number as records keep it."""
        return FIRSTS[self.series] + self.index + self.input * FURTHER

    @classmethod
    def of(cls, recorded: int) -> Self:
        """The number that records keep so."""
        for beside in (Series.REFERENCE, Series.CONTROL, Series.KNOWN):
            if recorded >= FIRSTS[beside]:
                return cls(recorded - FIRSTS[beside], beside)
        further, own = divmod(recorded, FURTHER)
        series = Series.PROGRAM if own >= FIRSTS[Series.PROGRAM] else Series.CASE
        return cls(own - FIRSTS[series], series, further)

    @classmethod
    def read(cls, text: str) -> Self:
        """The number of a text such as `7`, `program-3` or `7/2`; a whole number may be a recorded one.

        `UsageError` for another text.
        """
        match = _TEXT.fullmatch(text)
        if not match or match["series"] not in {None, *Series}:
            allowed = "7, program-7, known-7 or control-7, and 7/2 for the second further input of case 7"
            msg = f"case number {text!r}; allowed: {allowed}"
            raise UsageError(msg)
        index, series, further = int(match["index"]), match["series"], match["input"]
        number = cls(index, Series(series)) if series else cls.of(index)
        return replace(number, input=int(further)) if further else number
