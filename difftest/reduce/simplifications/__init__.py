"""Simplifications, a file a subject: each a plain function from a case to simpler ones, found by its file.

To add one, write it into the file of its subject and that file's `SIMPLIFICATIONS`; to add a subject, add a file; there is no list to
extend. What they offer is a case, and simpler by `difftest.reduce.measure`.
"""

from functools import cache
from typing import Protocol

from difftest import plugins
from difftest.reduce.candidate import Simplification


class Subject(Protocol):
    """What a module in this folder offers."""

    ORDER: int
    """Subjects with small numbers come first: big steps before small ones."""

    SIMPLIFICATIONS: tuple[Simplification, ...]


@cache
def simplifications() -> tuple[Simplification, ...]:
    """All of them, big steps first."""
    subjects = sorted(
        (plugins.load(__name__, name) for name in plugins.names(__name__)), key=lambda subject: subject.ORDER
    )
    return tuple(simplification for subject in subjects for simplification in subject.SIMPLIFICATIONS)
