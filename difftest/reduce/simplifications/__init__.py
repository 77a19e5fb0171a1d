"""Simplifications, a file a subject: each a plain function from a case to simpler ones, found by its file.

To add one, write it into the file of its subject and that file's `SIMPLIFICATIONS`; to add a subject, add a file; there is no list to
extend. What they offer is a case, and simpler by `difftest.reduce.measure`.
"""

from functools import cache
from typing import Protocol

from difftest import plugins
from difftest.reduce.candidate import Simplification


class Subject(Protocol):
    """What a file in this folder declares."""

    ORDER: int
    """Subjects with small numbers come first: big steps before small ones."""

    SIMPLIFICATIONS: tuple[Simplification, ...]
    """The functions of the file, big steps first."""


@cache
def load_all() -> tuple[Subject, ...]:
    """All subjects, by `ORDER` and then by name."""
    subjects: list[Subject] = [plugins.load(__name__, name) for name in plugins.names(__name__)]
    return tuple(sorted(subjects, key=lambda subject: subject.ORDER))


def simplifications() -> tuple[Simplification, ...]:
    """All of them, big steps first."""
    return tuple(simplification for subject in load_all() for simplification in subject.SIMPLIFICATIONS)
