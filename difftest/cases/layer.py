"""The base of every layer kind: the questions that the core asks of a layer, with the answers of a plain one.

A layer is frozen data. It maps a float tensor (batch, [sequence,] width) to one of the same rank; a kind that
takes token ids takes integers (batch, sequence). A kind overrides the answers in which it differs, in its own
file in `difftest.cases.layers`, so that no other module has to know which kinds there are.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from difftest.cases.layout import Layout
from difftest.cases.ranges import Range
from difftest.cases.script_values import python

MOST_WIDTH = 4096
MOST_FACTOR = 16.0
"""The greatest number that a layer multiplies by."""

Parameters: TypeAlias = Mapping[str, tuple[int, ...]]
"""Shapes by parameter name."""

Removable: TypeAlias = tuple[str, Mapping[str, Any]]
"""What a report calls an optional part of a layer, and the fields that take it away."""


class OfTorch(NamedTuple):
    """A class of `torch.nn`, and what it is made with."""

    name: str
    arguments: tuple[int, ...] = ()
    options: Mapping[str, bool | float] = {}


class Layer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One layer of a model.

    A kind derives from it with the fields that JSON has, and with a tag: the name of its file.
    """

    NEEDS_SEQUENCE: ClassVar[bool] = False
    """Whether it computes across positions, so that the model needs a sequence."""

    BETWEEN_RANKS: ClassVar[bool] = False
    """Whether it exchanges numbers between the ranks' rows.

    Every rank then needs equally many rows. A DTensor, which stands for the whole, has no such operation.
    """

    ATTENTION_QUERIES: ClassVar[tuple[str, ...]] = ()
    """The parameters that make the queries of attention; the regime `sharp` multiplies them."""

    MAGNITUDE: ClassVar[Literal["keeps", "grows", "rescales"]] = "keeps"
    """What it does to large inputs: a weight makes them grow, a norm rescales them."""

    READS_RESULTS: ClassVar[bool] = False
    """Whether it takes tensors and earlier results by name, as the layers of a program, and only they, do."""

    BUFFERS: ClassVar[int] = 0
    """How many buffers its module registers."""

    KERNELS: ClassVar[tuple[str, ...]] = ()
    """The parameters that are kernels of a convolution, whose dims after the second are positions."""

    TENSOR_PARALLEL: ClassVar[Literal["none", "linear", "embedding", "heads"]] = "none"
    """What `parallelize_module` can split it as; `heads` are the linear layers `q`, `k`, `v` and `o`."""

    TAKES_PIECES: ClassVar[bool] = False
    """Whether it works on a piece of the sequence, or the styles of `parallelize_module` gather it."""

    ELEMENTWISE: ClassVar[bool] = False
    """Whether it maps every number by itself, and so any piece of its input."""

    DTENSOR_RULE: ClassVar[bool] = True
    """Whether DTensor has a rule for its operator; wrappers must leave a layer without one alone."""

    MAKES_TENSORS: ClassVar[bool] = False
    """Whether its module makes tensors in its forward, plain ones where others are DTensors."""

    USUAL_NUMBERS: ClassVar[bool] = False
    """Whether models with it are fed usual numbers alone, in the regime `normal`."""

    OWN_SIZES: ClassVar[Mapping[str, tuple[int, ...]]] = {}
    """Fields that a reduction makes smaller, and the sizes to try, in order; widths are not among them."""

    LEAST_SEQUENCE: ClassVar[int] = 0
    """The shortest sequence that a reduction tries; 0 where any length will do, and none."""

    SCRIPT_CLASS: ClassVar[str] = ""
    """The class in a script that `spelled` makes an object of, as Python.

    Empty if torch or the templates have it.
    """

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

    def holding(self, layers: "tuple[Layer, ...]") -> "Layer":
        """The same container of other layers; only for a layer whose `held` is not None."""
        return self

    def shapes(self) -> Parameters:
        """The shapes of its own parameters by torch's names; empty for a container."""
        return {}

    def blocks_inside(self) -> tuple[str, ...]:
        """The paths of the blocks of a module that is one layer, which users gather each by itself."""
        return ()

    def buffers(self) -> Parameters:
        """The shapes of the buffers that have placements and values of their own, by name."""
        return {}

    def dtype_of(self, name: str, dtype: str) -> str:
        """The dtype of its own tensor `name` in a case of `dtype`, by torch's names."""
        return dtype

    def references(self) -> Iterator[str]:
        """The names of the tensors in its arguments, in order: its own, and those of earlier layers."""
        yield from ()

    def changes(self) -> tuple[str, ...]:
        """The tensors that it writes into, by their names in its arguments (`input`, `0.output`)."""
        return ()

    @property
    def rejects(self) -> bool:
        """Whether torch raises for its arguments."""
        return False

    @property
    def undefined(self) -> str:
        """What torch's documentation leaves open of its results; empty where nothing."""
        return ""

    def borrows(self) -> Mapping[str, str]:
        """The weights it shares: its own name for each, and the full name of the parameter that it is."""
        return {}

    @property
    def mixes_rows(self) -> bool:
        """Whether rows influence each other, so that some rows alone give other results."""
        return False

    @property
    def reads_segments(self) -> bool:
        """Whether it reads the batch's segment ids."""
        return False

    @property
    def reads_mask(self) -> bool:
        """Whether it reads a mask of its own (`mask`)."""
        return False

    def mask(self, lead: tuple[int, ...], random: np.random.Generator) -> npt.NDArray[np.float64]:
        """What it multiplies its input by in one step: (*`lead`, width), drawn on the host.

        `lead` is (batch,) or (batch, sequence).
        """
        raise NotImplementedError

    def mask_spelled(self, lead: str, torch_by: str | None = None) -> str:
        """The same in a script: an expression of numpy that draws from `RNG`.

        Where `torch_by` is given, one of torch, with these further arguments of `torch.rand`. `lead` are the
        dims before the last, each with a comma behind it.
        """
        raise NotImplementedError

    # What cannot be

    def sizes(self) -> Mapping[str, int]:
        """Its fields that are sizes, each from 1 to `MOST_WIDTH`; by default all whole numbers."""
        fields = ((field, getattr(self, field)) for field in self.__struct_fields__)
        return {field: size for field, size in fields if isinstance(size, int) and not isinstance(size, bool)}

    def contradiction(self) -> str:
        """Which of its fields contradict each other, and what is allowed; empty if none do."""
        return ""

    def require_declared(self) -> None:
        """`UsageError` if it has arguments that are not declared; for layers that come from JSON."""

    def misplaced(self, path: str, sequence: int, first: "Layer") -> str:
        """Why it cannot stand at `path`, in a model of this sequence and first layer; empty if it can."""
        lacks = self.NEEDS_SEQUENCE and sequence < 1
        return f"needs a sequence; the model's sequence is {sequence}" if lacks else ""

    def disagreement(self, layout: Layout, rows: int) -> str:
        """Why it cannot run on `layout` with `rows` rows in each accumulation part; empty if it can."""
        return ""

    # The exact channel

    def rounds(self) -> str:
        """Why its result may be rounded even where all sums are exact; empty if it is not."""
        return "a layer other than Linear and relu rounds"

    def output_range(self, values: Range, weights: Mapping[str, Range]) -> Range:
        """The range of its output; `weights` are the ranges of its parameters by its own names."""
        return values

    def gradient_ranges(
        self, values: Range, gradient: Range, rows: int, weights: Mapping[str, Range]
    ) -> Mapping[str, Range]:
        """The ranges of its parameters' gradients, by its own names, as `weights` are.

        `values` is the range of its input, `gradient` that of its output's gradient, and `rows` the number of
        rows that are summed.
        """
        return {}

    def input_gradient_range(self, gradient: Range, weights: Mapping[str, Range]) -> Range:
        """The range of its input's gradient, from that of its output's."""
        return gradient

    # Reduction

    @property
    def complexity(self) -> int:
        """Its weight in the size of a model, which a reduction lowers; the plainest kinds count 1."""
        return 1

    @property
    def extent(self) -> int:
        """How large it is: a number that a reduction lowers."""
        return sum(self.sizes().values())

    def removable(self) -> tuple[Removable, ...]:
        """Its optional parts that are present: biases, masks and the like."""
        return ()

    def plainer(self) -> "Layer":
        """The plainest layer that does the same to shapes; itself if it is that."""
        return self

    def smaller_forms(self) -> "Iterator[tuple[str, Layer]]":
        """Smaller layers of its kind, and what it has and they lack, in words.

        For what takes more than one field; single fields are `OWN_SIZES`.
        """
        yield from ()

    def fitted(self, width: int, first: "Layer | None") -> "Layer":
        """The layer for inputs of `width`, in a model with this first layer."""
        return msgspec.structs.replace(self, width=width) if "width" in self.__struct_fields__ else self

    def ending_at(self, width: int) -> "Layer | None":
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

    def shortened(self, length: int) -> Self:
        """The layer in a model with a sequence of `length`."""
        return self

    def on_axes(self, kept: tuple[int, ...], shape: tuple[int, ...]) -> Self:
        """The layer on those mesh axes that are `kept`, by number, with their sizes in `shape`."""
        return self

    # What others say of it

    def features(self) -> Iterator[str]:
        """Its notable features, beside its kind: cases that show new pairs of them are preferred."""
        yield from ()

    @property
    def key_heads(self) -> int:
        """The number of heads of its keys and values; 0 if it is no attention."""
        return 0

    def no_style(self) -> str:
        """Why no style of `parallelize_module` fits this layer, whatever its placements; empty if one may."""
        return ""

    def of_torch(self) -> OfTorch | None:
        """The module of torch that the layer is; None for a kind with a file in `workers.training.layers`."""
        return None

    def spelled(self, path: str, *, moves: bool) -> str:
        """The layer at `path` in a reproducer script, as Python; by default the module of torch that it is.

        `moves`: the script's activations have placements. A container is spelled by its class's name and the
        layers it holds. `ValueError` if a script cannot show the layer.
        """
        if not (module := self.of_torch()):
            msg = f"layer {path} is a {type(self).__name__}, which cannot be spelled out"
            raise ValueError(msg)
        options = (f"{name}={python(value)}" for name, value in module.options.items())
        return f"nn.{module.name}({', '.join((*map(python, module.arguments), *options))})"
