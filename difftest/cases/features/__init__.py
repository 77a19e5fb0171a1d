"""The features of training, a file each: the options that a case can give them, and what follows from them.

A file's `Options` are a `difftest.cases.feature.FeatureOptions`. To add a feature that is an argument of
torch's, add a file here. One that does more, or whose reference is more than other arguments, has a file of
the same name in `workers.training.features`. Only the options are read of a case; nothing else can reach a
run or a script.
"""

from typing import Protocol

from difftest.cases.schema import Schema
from difftest.ground import plugins


class FeatureDeclaration(Protocol):
    """What a file in this folder declares."""

    @property
    def Options(self) -> type[Schema]:  # noqa: N802  a class
        """The options of the feature, by name."""


def load(name: str) -> FeatureDeclaration:
    """The feature called `name`; `UsageError` when there is none."""
    feature: FeatureDeclaration = plugins.load(__name__, name)
    return feature


def names() -> tuple[str, ...]:
    """All features, sorted."""
    return plugins.names(__name__)
