"""The numbers of cases: their text, and the whole numbers by which records keep them."""

import itertools

import pytest

from difftest.cases.case_number import CaseNumber, Series
from difftest.ground.errors import UsageError
from generators.explore import BLOCK

NUMBERS = {
    "0": 0,
    "7": 7,
    "7/2": 20_000_000_007,
    "program-0": 1_000_000_000,
    "program-40": 1_000_000_040,
    "known-3": 1_000_000_000_003,
}
"""What earlier campaigns recorded."""


@pytest.mark.parametrize(("text", "recorded"), NUMBERS.items())
def test_a_number_has_the_text_and_the_record_that_it_had(text: str, recorded: int) -> None:
    number = CaseNumber.of(recorded)
    assert (str(number), number.recorded) == (text, recorded)
    assert CaseNumber.read(text) == CaseNumber.read(str(recorded)) == number


def test_no_two_numbers_have_one_record() -> None:
    numbers = [
        CaseNumber(index, series, further)
        for index, series, further in itertools.product((0, 1, 999_999_999), Series, range(20))
        if series == Series.CASE or not further
    ]
    assert [CaseNumber.of(number.recorded) for number in numbers] == numbers


def test_the_series_begin_at_whole_blocks() -> None:
    """Recorded numbers are compared by their places in blocks."""
    assert not any(CaseNumber(0, series).recorded % BLOCK for series in Series)


@pytest.mark.parametrize(
    "text", ["", "-1", "seven", "case 7", "programs-1", "7/", "7/-1", "program-1/2/3", "1e3", " 7"]
)
def test_another_text_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(UsageError, match="allowed: 7, program-7, known-7 or control-7"):
        CaseNumber.read(text)
