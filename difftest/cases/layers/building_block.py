"""A building block of real models: what it is called, what it is built from, and what it owns.

`difftest.cases.blocks` has a file for every block, which declares its arguments and tensors, and
`workers.training.blocks` one that builds it. The case keeps the tensors, so that no other module has to know
which blocks there are.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal, TypeAlias

from difftest.cases import blocks, schema
from difftest.cases.layer import Layer, Parameters
from difftest.cases.schema import TensorName

Argument: TypeAlias = bool | int | float | str
Arguments: TypeAlias = Mapping[str, Argument]
"""The sizes and options of a block, by name."""


class BuildingBlock(Layer, frozen=True, kw_only=True, tag="building_block", omit_defaults=True):
    """The block called `block`, built from `arguments`.

    It maps (batch, [sequence,] `inputs`) to (batch, [sequence,] `outputs`); with a `vocabulary` it takes
    token ids (batch, sequence) instead. `positions`: it needs a sequence, otherwise it takes none.
    `parameters` and `held_buffers` are the shapes of what it owns, by torch's names; `counters` are those
    buffers that are integers (int64). `rowwise`: rows do not influence each other. Otherwise (in batch
    normalization) ranks that have rows of their own compute something else than one device.
    """

    MAGNITUDE: ClassVar[Literal["grows"]] = "grows"
    MAKES_TENSORS: ClassVar[bool] = True
    USUAL_NUMBERS: ClassVar[bool] = True

    block: str
    arguments: Arguments
    parameters: Mapping[TensorName, tuple[int, ...]]
    inputs: int
    outputs: int
    held_buffers: Mapping[TensorName, tuple[int, ...]] = {}
    counters: tuple[str, ...] = ()
    vocabulary: int = 0
    positions: bool = False
    rowwise: bool = True

    @property
    def title(self) -> str:
        """The block's name in words."""
        return f"the building block {self.block}"

    @property
    def takes(self) -> int | None:
        """The width of its input; ids have none."""
        return None if self.vocabulary else self.inputs

    def gives(self, width: int) -> int:
        """The width of its output."""
        return self.outputs

    @property
    def tokens(self) -> int:
        """The vocabulary."""
        return self.vocabulary

    def shapes(self) -> Parameters:
        """Its parameters."""
        return self.parameters

    def buffers(self) -> Parameters:
        """Its buffers."""
        return self.held_buffers

    def dtype_of(self, name: str, dtype: str) -> str:
        """A counter stays a whole number."""
        return "int64" if name in self.counters else dtype

    @property
    def mixes_rows(self) -> bool:
        """As its declaration says."""
        return not self.rowwise

    def sizes(self) -> Mapping[str, int]:
        """Its widths; its arguments have a bound of their own."""
        return {"inputs": self.inputs, "outputs": self.outputs}

    def contradiction(self) -> str:
        """Counters are buffers."""
        unknown = sorted({*self.counters} - {*self.held_buffers})
        return f"no buffer {unknown[0]} to count in" if unknown else ""

    def require_declared(self) -> None:
        """There is such a block, and the arguments are those that it declares."""
        schema.require(f"block {self.block}", self.arguments, blocks.load(self.block).Arguments)

    def misplaced(self, path: str, sequence: int, first: Layer) -> str:
        """It needs a sequence, or takes none; only layer 0 is given ids."""
        if self.positions != bool(sequence):
            wanted = "needs a sequence" if self.positions else "takes no sequence"
            return f"{wanted}; the model's sequence is {sequence}"
        return "takes ids; only layer 0 may" if self.vocabulary and path != "0" else ""

    def rounds(self) -> str:
        """Nothing is known of its rounding here."""
        return "a building block may round"

    @property
    def complexity(self) -> int:
        """More than any layer of one operator."""
        return 6

    @property
    def width_fields(self) -> tuple[str, ...]:
        """None that a reduction may change: its tensors follow from its arguments."""
        return ()

    def fitted(self, width: int, first: Layer | None) -> "BuildingBlock":
        """The same: its tensors follow from its arguments."""
        return self

    def features(self) -> Iterator[str]:
        """The block, and its options."""
        yield f"block {self.block}"
        for name, argument in self.arguments.items():
            if isinstance(argument, bool | str):
                yield f"block {self.block} {name}={argument}"

    def no_style(self) -> str:
        """The styles are for single layers."""
        return "no plan of parallelize_module follows from the placements of a building block"
