"""The building blocks of real models, a file each: their arguments, and the tensors that follow.

A file's `Arguments` are `difftest.cases.block.BlockArguments`. To add a block, add a file here, and one of
the same name in `workers.training.blocks` that builds it; there is no list to extend. Only the arguments are
read of a case; nothing else can reach a run or a script.
"""

from typing import Protocol

from difftest.cases.schema import Schema
from difftest.ground import plugins


class BlockDeclaration(Protocol):
    """What a file in this folder declares."""

    @property
    def Arguments(self) -> type[Schema]:  # noqa: N802  a class
        """The sizes and options of the block, by name."""


def load(name: str) -> BlockDeclaration:
    """The block called `name`; `UsageError` when there is none."""
    block: BlockDeclaration = plugins.load(__name__, name)
    return block


def names() -> tuple[str, ...]:
    """All blocks, sorted."""
    return plugins.names(__name__)
