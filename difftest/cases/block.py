"""What a building block declares, in a file of `difftest.cases.blocks`.

Its arguments are a struct with methods: the values that are drawn, and the tensors that follow. What the
block computes is in `workers.training.blocks`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias, cast

import msgspec

from difftest.cases import blocks
from difftest.cases.layer import Layer, Parameters
from difftest.cases.layers import walk
from difftest.cases.layers.building_block import Argument, Arguments, BuildingBlock
from difftest.cases.schema import Schema

Choices: TypeAlias = Mapping[str, Sequence[Argument]]
"""By argument, the values that are drawn; one that is there twice is drawn twice as often."""

Dims: TypeAlias = tuple[int, ...]
"""The dims along which a tensor may be sharded beside its first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What follows from the arguments of a block; the fields are those of a `BuildingBlock`.

    `cuts` are the dims along which tensor parallelism may cut a parameter; those without an entry are cut
    along dim 0 or not at all.
    """

    parameters: Parameters
    inputs: int
    outputs: int
    held_buffers: Parameters = field(default_factory=dict)
    counters: tuple[str, ...] = ()
    vocabulary: int = 0
    positions: bool = False
    rowwise: bool = True
    cuts: Mapping[str, Dims] = field(default_factory=dict)


class BlockArguments(Schema, frozen=True):
    """The sizes and options of a block, and what follows from them.

    `WEIGHT` is how often the block is drawn, compared with the others. `CONTROL_FLOW`: it calls `scan` or the
    like, which the reference replaces by loops.
    """

    WEIGHT: ClassVar[int] = 2
    CONTROL_FLOW: ClassVar[bool] = False

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """The values of each argument; sizes that an axis may cut are usually multiples of `unit`."""
        raise NotImplementedError

    def declared(self) -> Declared:
        """What the block with these arguments owns, takes and gives."""
        raise NotImplementedError


def arguments_of(name: str) -> type[BlockArguments]:
    """The arguments of the block called `name`; `UsageError` when there is none."""
    return cast("type[BlockArguments]", blocks.load(name).Arguments)


def declared(name: str, arguments: Arguments) -> Declared:
    """What the block called `name` with these arguments declares; `UsageError` when there is none."""
    return msgspec.convert(arguments, arguments_of(name)).declared()


def layer(name: str, arguments: Arguments) -> BuildingBlock:
    """The layer that is this block; `UsageError` when there is no such block."""
    made = declared(name, arguments)
    return BuildingBlock(
        block=name,
        arguments=arguments,
        parameters=made.parameters,
        inputs=made.inputs,
        outputs=made.outputs,
        held_buffers=made.held_buffers,
        counters=made.counters,
        vocabulary=made.vocabulary,
        positions=made.positions,
        rowwise=made.rowwise,
    )


def calls_control_flow(layers: tuple[Layer, ...]) -> bool:
    """Whether a block among the layers, or inside them, does."""
    blocks = (layer for _, layer in walk(layers) if isinstance(layer, BuildingBlock))
    return any(arguments_of(block.block).CONTROL_FLOW for block in blocks)


def linear(name: str, outputs: int, inputs: int, *, bias: bool = False) -> Parameters:
    """The parameters of the Linear layer called `name`."""
    return {f"{name}.weight": (outputs, inputs), **({f"{name}.bias": (outputs,)} if bias else {})}
