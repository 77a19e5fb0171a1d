"""Rows of a parametrized test of which a part runs with every change, and the others in the nightly job.

It is for rows that take seconds each and change rarely, such as planted faults and faults of packages whose
versions are pinned.
"""

import zlib
from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet


def in_part(names: Iterable[str], each: int) -> list[ParameterSet]:
    """The names as parameters: one of `each`, which follows from the name itself, runs with every change."""
    return [pytest.param(name, marks=() if runs_often(name, each) else pytest.mark.nightly) for name in names]


def runs_often(name: str, each: int) -> bool:
    """Whether the row of this name runs with every change."""
    return zlib.crc32(name.encode()) % each == 0
