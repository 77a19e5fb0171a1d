"""The definitions of building blocks, a file for each: from the input and the weights to the output."""

from collections.abc import Mapping
from typing import Any, Protocol, cast

from difftest.ground import plugins
from workers.references.layers import Array, Context


class BlockDefinition(Protocol):
    """What a file in this folder offers."""

    def computed(self, arguments: Mapping[str, Any], inputs: Array, context: Context) -> Array:
        """The output of the block with the arguments of the case."""


def names() -> tuple[str, ...]:
    """All blocks that have a definition, sorted."""
    return plugins.names(__name__)


def load(name: str) -> BlockDefinition:
    """The definition of the block called `name`; `UsageError` when there is none."""
    return cast("BlockDefinition", plugins.load(__name__, name))
