"""The building blocks of real models, a file each: the arguments that a case can give them.

The file has the name of those in `generators.blocks` and `workers.training.blocks`. Its `Arguments` are what
is read of a case; nothing else can reach a run or a script.
"""

from typing import Protocol

from difftest.cases.schema import Schema
from difftest.ground import plugins


class Declared(Protocol):
    """What a file in this folder declares."""

    @property
    def Arguments(self) -> type[Schema]:  # noqa: N802  a class
        """The sizes and options of the block, by name."""


def load(name: str) -> Declared:
    """The block called `name`; `UsageError` when there is none."""
    block: Declared = plugins.load(__name__, name)
    return block
