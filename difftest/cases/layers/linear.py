"""The linear layer, which may borrow the weight of an embedding."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import msgspec

from difftest.cases.layer import Layer, OfTorch, Parameters, Removable
from difftest.cases.ranges import Range


class Linear(Layer, frozen=True, kw_only=True, tag="linear"):
    """`x @ weight.T + bias`; weight is (outputs, inputs).

    `tied`: the weight is that of the embedding at index 0.
    """

    MAGNITUDE: ClassVar[Literal["grows"]] = "grows"
    TENSOR_PARALLEL: ClassVar[Literal["linear"]] = "linear"
    TAKES_PIECES: ClassVar[bool] = True

    inputs: int
    outputs: int
    bias: bool = True
    tied: bool = False

    @property
    def takes(self) -> int:
        """The width of its input."""
        return self.inputs

    def gives(self, width: int) -> int:
        """The width of its output."""
        return self.outputs

    def shapes(self) -> Parameters:
        """A weight, if it is its own, and a bias, if it has one."""
        weight = {} if self.tied else {"weight": (self.outputs, self.inputs)}
        return weight | ({"bias": (self.outputs,)} if self.bias else {})

    def borrows(self) -> Mapping[str, str]:
        """The embedding's weight, if it is tied."""
        return {"weight": "0.weight"} if self.tied else {}

    def misplaced(self, path: str, sequence: int, first: Layer) -> str:
        """A tied layer needs an embedding of its own shape to borrow from."""
        if self.tied and _lent(first) != (self.outputs, self.inputs):
            return f"is tied to layer 0, which is no embedding of ({self.outputs}, {self.inputs})"
        return super().misplaced(path, sequence, first)

    def rounds(self) -> str:
        """Products and sums alone, which the ranges follow."""
        return ""

    def output_range(self, values: Range, weights: Mapping[str, Range]) -> Range:
        """A sum of `inputs` products, and the bias."""
        products = (values * weights["weight"]).summed(self.inputs)
        return products + weights["bias"] if self.bias else products

    def gradient_ranges(
        self, values: Range, gradient: Range, rows: int, weights: Mapping[str, Range]
    ) -> Mapping[str, Range]:
        """Sums over the rows."""
        del weights
        bias = {"bias": gradient.summed(rows)} if self.bias else {}
        return {"weight": (gradient * values).summed(rows)} | bias

    def input_gradient_range(self, gradient: Range, weights: Mapping[str, Range]) -> Range:
        """A sum of `outputs` products."""
        return (gradient * weights["weight"]).summed(self.outputs)

    def removable(self) -> tuple[Removable, ...]:
        """The bias, and the tie."""
        bias: tuple[Removable, ...] = (("has a bias", {"bias": False}),) if self.bias else ()
        tie: tuple[Removable, ...] = (("is tied to the embedding", {"tied": False}),) if self.tied else ()
        return bias + tie

    def fitted(self, width: int, first: Layer | None) -> "Linear":
        """With a weight of its own where no embedding of this width is left to borrow from."""
        if self.tied and first and (lent := _lent(first)) and lent[1] == width:
            return msgspec.structs.replace(self, inputs=width, outputs=lent[0])
        return msgspec.structs.replace(self, inputs=width, tied=False)

    def ending_at(self, width: int) -> "Linear":
        """With a weight of its own."""
        return msgspec.structs.replace(self, outputs=width, tied=False)

    @property
    def new_width(self) -> int | None:
        """Its outputs, unless they are the vocabulary."""
        return None if self.tied else self.outputs

    @property
    def width_fields(self) -> tuple[str, ...]:
        """The outputs of a tied layer are the vocabulary."""
        return ("inputs",) if self.tied else ("inputs", "outputs")

    def features(self) -> Iterator[str]:
        """Whether it is tied."""
        if self.tied:
            yield "tied"

    def of_torch(self) -> OfTorch:
        """A tied weight is shared after all modules are built."""
        return OfTorch("Linear", (self.inputs, self.outputs), {} if self.bias else {"bias": False})


def _lent(first: Layer) -> tuple[int, ...] | None:
    """The shape of the weight that layer 0 lends, which only an embedding does."""
    return first.shapes()["weight"] if first.TENSOR_PARALLEL == "embedding" else None
