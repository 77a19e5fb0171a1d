"""Values as people read them, in the cells of pages."""

import math
import re
from datetime import UTC, datetime

import pandas as pd

from difftest.judge.noise import FLOORS_MOST

NOTHING = "\N{EN DASH}"
_UNDERSCORE = re.compile(r"(?<!\btorch)_|_(?!xla\b)")
"""All but that of torch_xla."""

_LARGE = 1e5
_WHOLE = 999.5
_SMALL = 1e-3


def shown(value: object) -> str:
    """`value` in a few characters: two or three significant digits, thousands apart, a dash for nothing."""
    if isinstance(value, float) and not math.isnan(value):
        if abs(value) >= FLOORS_MOST:
            return "\N{INFINITY}" if value > 0 else "-\N{INFINITY}"
        if value and not _SMALL <= abs(value) < _LARGE:
            mantissa, exponent = f"{value:.1e}".split("e")
            return f"{mantissa}e{int(exponent)}"
        return f"{value:#.3g}".rstrip(".") if 0 < abs(value) < _WHOLE else f"{value:,.0f}"
    if isinstance(value, float) or value is None or value is pd.NA or value is pd.NaT or value == "":
        return NOTHING
    return f"{value:,}" if isinstance(value, int) else str(value)


def cut(text: str, most: int, rest: str) -> str:
    """The first `most` characters of `text`.

    If it has more, a last line says how many and where the `rest` is.
    """
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most:,} more characters: {rest}]"


def moment(iso: str) -> str:
    """An ISO 8601 time in UTC to the minute; other text as it is."""
    try:
        return f"{datetime.fromisoformat(iso).astimezone(UTC):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return iso


def headings(table: pd.DataFrame) -> list[tuple[str, bool]]:
    """The columns of `table` in words, and whether they hold numbers."""
    return [
        (_UNDERSCORE.sub(" ", str(name)), pd.api.types.is_numeric_dtype(table[name].dtype))
        for name in table.columns
    ]


def rows(table: pd.DataFrame) -> list[list[str]]:
    """The cells of `table` as people read them."""
    columns = [[shown(value) for value in table[name].astype(object).tolist()] for name in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]
