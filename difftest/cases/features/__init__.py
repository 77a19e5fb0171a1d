"""The features of training, a file each: the options that a case can give them.

The file has the name of those in `generators.features` and `workers.training.features`. Its `Options` are
what is read of a case; nothing else can reach a run or a script.
"""

from typing import Protocol

from difftest.cases.schema import Schema
from difftest.ground import plugins


class Declared(Protocol):
    """What a file in this folder declares."""

    @property
    def Options(self) -> type[Schema]:  # noqa: N802  a class
        """The options of the feature, by name."""


def load(name: str) -> Declared:
    """The feature called `name`; `UsageError` when there is none."""
    feature: Declared = plugins.load(__name__, name)
    return feature
