"""The base of every layer kind: the questions that the core asks of a layer, with the answers of a plain one.

A layer is frozen data. It maps a float tensor (batch, [sequence,] width) to one of the same rank; a kind that takes token ids takes
integers (batch, sequence). A kind overrides the answers in which it differs, in its own file in `difftest.cases.layers`, so that no other
module has to know which kinds there are.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from difftest.cases.layout import Layout
from difftest.cases.ranges import Range

MOST_WIDTH = 4096
MOST_FACTOR = 16.0
"""The greatest number that a layer multiplies by."""

Parameters: TypeAlias = Mapping[str, tuple[int, ...]]
"""Shapes by parameter name."""

Removable: TypeAlias = tuple[str, Mapping[str, Any]]
"""What a report calls an optional part of a layer, and the fields that take it away."""


class Layer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One layer of a model. A kind derives from it with a tag, the name of its file, and with the fields that JSON has."""

    NEEDS_SEQUENCE: ClassVar[bool] = False
    """Whether it computes across positions, so that the model needs a sequence."""

    BETWEEN_RANKS: ClassVar[bool] = False
    """Whether the ranks' own rows meet in it: all ranks need equally many, and a DTensor, which is the whole, has no such operation."""

    ATTENTION_QUERIES: ClassVar[tuple[str, ...]] = ()
    """The parameters that make the queries of attention; the regime `sharp` multiplies them."""

    MAGNITUDE: ClassVar[Literal["keeps", "grows", "rescales"]] = "keeps"
    """What it does to large inputs: a weight makes them grow, a norm rescales them."""

    BUFFERS: ClassVar[int] = 0
    """How many buffers its torch module registers."""

    KERNELS: ClassVar[tuple[str, ...]] = ()
    """The parameters that are kernels of a convolution, whose dims after the second are positions."""

    TENSOR_PARALLEL: ClassVar[Literal["none", "linear", "embedding", "heads"]] = "none"
    """What `parallelize_module` can split it as; `heads` are projections `q`, `k`, `v` and `o`, each a linear layer."""

    ELEMENTWISE: ClassVar[bool] = False
    """Whether it maps every number by itself, without anything that is fed, so that any piece of its input will do."""

    DTENSOR_RULE: ClassVar[bool] = True
    """Whether DTensor has a rule for its operator. A wrapper of DTensors must leave a layer without one alone."""

    OWN_SIZES: ClassVar[Mapping[str, tuple[int, ...]]] = {}
    """Fields other than widths that a reduction makes smaller, with the sizes that it tries, in their order."""

    LEAST_SEQUENCE: ClassVar[int] = 0
    """The shortest sequence that a reduction tries; 0 where any length will do, and none."""

    PLAIN_WEIGHT: ClassVar[str] = "weight"
    """The parameter whose placements the weight of the `plainer` layer takes."""

    @property
    def kind(self) -> str:
        """The kind's name: that of its file, and the tag in JSON."""
        return str(self.__struct_config__.tag)

    @property
    def title(self) -> str:
        """What a report calls it."""
        return type(self).__name__

    # What it takes, gives and owns

    @property
    def takes(self) -> int | None:
        """The width of its input; None if any width will do."""
        return getattr(self, "width", None)

    def gives(self, width: int) -> int:
        """The width of its output when its input has `width`."""
        return width

    @property
    def tokens(self) -> int:
        """The number of different token ids it takes; 0 if it takes floats."""
        return 0

    @property
    def held(self) -> "tuple[Layer, ...] | None":
        """The layers it consists of; None if it is no container."""
        return None

    def holding(self, layers: "tuple[Layer, ...]") -> "Layer":  # noqa: ARG002  for containers
        """The same container of other layers; only for a layer whose `held` is not None."""
        return self

    def shapes(self) -> Parameters:
        """The shapes of its own parameters by torch's names; empty for a container."""
        return {}

    def borrows(self) -> Mapping[str, str]:
        """The weights it shares: its own name for each, and the full name of the parameter that it is."""
        return {}

    @property
    def reads_segments(self) -> bool:
        """Whether it reads the batch's segment ids."""
        return False

    @property
    def reads_mask(self) -> bool:
        """Whether it reads a mask of its own (`mask`)."""
        return False

    def mask(self, lead: tuple[int, ...], random: np.random.Generator) -> npt.NDArray[np.float64]:
        """What it multiplies its input by in one step, drawn on the host: (*`lead`, width), `lead` being (batch, [sequence])."""
        raise NotImplementedError

    # What cannot be

    def sizes(self) -> Mapping[str, int]:
        """Its fields that are sizes, each from 1 to `MOST_WIDTH`; by default all whole numbers."""
        fields = ((field, getattr(self, field)) for field in self.__struct_fields__)
        return {field: size for field, size in fields if isinstance(size, int) and not isinstance(size, bool)}

    def contradiction(self) -> str:
        """Which of its fields contradict each other, and what is allowed; empty if none do."""
        return ""

    def misplaced(self, path: str, sequence: int, first: "Layer") -> str:  # noqa: ARG002  for layers that need a place
        """Why it cannot stand at `path` of a model with this sequence and this first layer; empty if it can."""
        if self.NEEDS_SEQUENCE and sequence < 1:
            return f"needs a sequence; the model's sequence is {sequence}"
        return ""

    def disagreement(self, layout: Layout, rows: int) -> str:  # noqa: ARG002  for layers that speak of the mesh
        """Why it cannot run on `layout` with `rows` rows in each accumulation part; empty if it can."""
        return ""

    # The exact channel

    def rounds(self) -> str:
        """Why its result may be rounded even where all sums are exact; empty if it is not."""
        return "a layer other than Linear and relu rounds"

    def output_range(self, values: Range, weights: Mapping[str, Range]) -> Range:  # noqa: ARG002  for layers with parameters
        """The range of its output; `weights` are the ranges of its parameters by its own names."""
        return values

    def gradient_ranges(self, values: Range, gradient: Range, rows: int) -> Mapping[str, Range]:  # noqa: ARG002
        """The ranges of its parameters' gradients, from those of its input and its output's gradient, over `rows` rows."""
        return {}

    def input_gradient_range(self, gradient: Range, weights: Mapping[str, Range]) -> Range:  # noqa: ARG002
        """The range of its input's gradient, from that of its output's."""
        return gradient

    # Reduction

    @property
    def complexity(self) -> int:
        """How much it counts among layers: a reduction goes from many to few; the plainest kinds count 1."""
        return 1

    def removable(self) -> tuple[Removable, ...]:
        """Its optional parts that are present: biases, masks and the like."""
        return ()

    def plainer(self) -> "Layer":
        """The plainest layer that does the same to shapes; itself if it is that."""
        return self

    def smaller_forms(self) -> "Iterator[tuple[str, Layer]]":
        """Smaller layers of its kind, with words for what they lack, where that is more than one field of `OWN_SIZES`."""
        yield from ()

    def fitted(self, width: int, first: "Layer | None") -> "Layer":  # noqa: ARG002  for layers that borrow
        """The layer for inputs of `width`, in a model with this first layer."""
        return msgspec.structs.replace(self, width=width) if "width" in self.__struct_fields__ else self

    def ending_at(self, width: int) -> "Layer | None":  # noqa: ARG002  for layers that change the width
        """The layer with outputs of `width`; None if it does not change the width."""
        return None

    @property
    def new_width(self) -> int | None:
        """The width that it introduces and later layers follow from; None if it does not."""
        return None

    @property
    def width_fields(self) -> tuple[str, ...]:
        """Its fields that are widths of activations."""
        return tuple(field for field in ("inputs", "outputs", "width") if field in self.__struct_fields__)

    def shortened(self, length: int) -> Self:  # noqa: ARG002  for layers that know the sequence
        """The layer in a model with a sequence of `length`."""
        return self

    def on_axes(self, kept: tuple[int, ...], shape: tuple[int, ...]) -> Self:  # noqa: ARG002  for layers that speak of the mesh
        """The layer on those mesh axes that are `kept`, by number, with their sizes in `shape`."""
        return self

    # What others say of it

    def features(self) -> Iterator[str]:
        """What is notable about it beside its kind, for the choice of cases that show new pairs of features."""
        yield from ()

    @property
    def key_heads(self) -> int:
        """How many heads of keys and values it has; 0 if it is no attention."""
        return 0

    def no_style(self) -> str:
        """Why no style of `parallelize_module` fits this layer, whatever its placements; empty if one may."""
        return ""

    def spelled(self, path: str, *, moves: bool) -> str:  # noqa: ARG002  for those that it matters to
        """The layer at `path` in a reproducer script, as Python; `moves`: the script's activations have placements.

        `ValueError` if a script cannot show it. A container is spelled by its class's name and what it holds.
        """
        msg = f"layer {path} is a {type(self).__name__}, which cannot be spelled out"
        raise ValueError(msg)
