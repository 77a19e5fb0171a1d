"""How every kind of layer is drawn: a file for each kind. There is no list to extend.

A file has the strategies of its kind, for models and paths to call, and declares the two things that are
drawn for any kind: blocks in the middle of a model, and placements over an axis of tensor parallelism.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layer import Layer
from difftest.cases.layout import Replicate, Shard
from difftest.ground import plugins

Layers: TypeAlias = tuple[Layer, ...]

Placement: TypeAlias = Shard | Replicate
ByParameter: TypeAlias = Mapping[str, Placement]
"""Each parameter's placement over one mesh axis."""

Cut: TypeAlias = Literal["columns", "rows", "whole"]
"""How a Linear layer is cut: its outputs, its inputs, or not.

These are Megatron's words, for the weight's transpose.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A choice for the middle of a model: layers that end at the width they begin with.

    `strategy` draws them from a width and from the unit that widths are usually multiples of. `weight` is how
    often the block is chosen, compared with the others; `order` is its place among them, which decides what
    drawn bytes mean: a new one goes last.
    """

    order: int
    weight: int
    strategy: Callable[[int, int], SearchStrategy[Layers]]
    needs_sequence: bool = False


class DrawnKind(Protocol):
    """What a file in this folder declares."""

    BLOCKS: tuple[Block, ...]
    """The blocks that are named for the kind; none for a kind that only models or paths of its own have."""

    def placements(
        self,
        *,
        layer: Any,  # noqa: ANN401  of its kind
        size: int,
        cut: Cut,
    ) -> SearchStrategy[ByParameter]:
        """Placements of the layer's parameters, by its own names, over an axis of `size`.

        `cut` is meant for Linear layers. `kept_whole` is for kinds that no axis cuts.
        """


def load(name: str) -> DrawnKind:
    """What is declared of the kind called `name`; `UsageError` when there is none."""
    kind: DrawnKind = plugins.load(__name__, name)
    return kind


@functools.cache
def middle_blocks() -> tuple[Block, ...]:
    """The blocks of all kinds, in their order."""
    declared = (block for name in plugins.names(__name__) for block in load(name).BLOCKS)
    return tuple(sorted(declared, key=lambda block: block.order))


def whole(layer: Layer) -> ByParameter:
    """Every parameter of the layer replicated."""
    return dict.fromkeys(layer.shapes(), Replicate())


def kept_whole(*, layer: Layer, size: int, cut: Cut) -> SearchStrategy[ByParameter]:
    """The placements of a kind that no axis cuts."""
    return st.just(whole(layer))


def along_dim_0(layer: Layer) -> ByParameter:
    """Every parameter of the layer cut along dim 0."""
    return dict.fromkeys(layer.shapes(), Shard(0))
