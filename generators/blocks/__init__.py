"""The building blocks of real models, a file each: their sizes and options, and the tensors that follow.

To add a block, add a file here that satisfies `DrawnBlock`, and one of the same name in
`workers.training.blocks` that builds it; there is no list to extend.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from hypothesis.strategies import SearchStrategy

from difftest.cases.layer import Parameters
from difftest.cases.layers.building_block import Arguments, BuildingBlock
from difftest.ground import plugins

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


class DrawnBlock(Protocol):
    """What a file in this folder declares."""

    WEIGHT: int
    """How often the block is drawn, compared with the others."""

    def arguments(self, *, unit: int) -> SearchStrategy[Arguments]:
        """The sizes and options; sizes that an axis may cut are usually multiples of `unit`."""

    def declared(self, arguments: Arguments) -> Declared:
        """What the block with these arguments owns, takes and gives."""


def load(name: str) -> DrawnBlock:
    """The block called `name`; `UsageError` when there is none."""
    block: DrawnBlock = plugins.load(__name__, name)
    return block


def names() -> tuple[str, ...]:
    """All blocks, sorted."""
    return plugins.names(__name__)


def layer(name: str, arguments: Arguments) -> BuildingBlock:
    """The layer that is this block; `UsageError` when there is no such block."""
    declared = load(name).declared(arguments)
    return BuildingBlock(
        block=name,
        arguments=arguments,
        parameters=declared.parameters,
        inputs=declared.inputs,
        outputs=declared.outputs,
        held_buffers=declared.held_buffers,
        counters=declared.counters,
        vocabulary=declared.vocabulary,
        positions=declared.positions,
        rowwise=declared.rowwise,
    )


def size(arguments: Arguments, name: str) -> int:
    """The whole number called `name` among the arguments; `TypeError` if it is something else."""
    argument = arguments[name]
    if not isinstance(argument, int):
        msg = f"argument {name} is {argument!r}; it must be a whole number"
        raise TypeError(msg)
    return argument


def linear(name: str, outputs: int, inputs: int, *, bias: bool = False) -> Parameters:
    """The parameters of the Linear layer called `name`."""
    return {f"{name}.weight": (outputs, inputs), **({f"{name}.bias": (outputs,)} if bias else {})}
