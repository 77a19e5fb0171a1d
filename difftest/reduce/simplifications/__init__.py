"""The simplifications, one file a subject: each is a plain function from a case to simpler cases.

To add a simplification, write it into the file of its subject and into that file's `SIMPLIFICATIONS`; to add
a subject, add a file that satisfies `Subject`; there is no list to extend. The results must be valid cases,
and simpler by `difftest.reduce.measure`.
"""

from functools import cache
from typing import Protocol

from difftest.ground import plugins
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
