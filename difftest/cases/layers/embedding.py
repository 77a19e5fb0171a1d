"""The embedding of token ids."""

from typing import ClassVar, Literal

from difftest.cases.layer import Layer, OfTorch, Parameters
from difftest.cases.layers.linear import Linear


class Embedding(Layer, frozen=True, kw_only=True, tag="embedding"):
    """Token ids (batch, sequence) to vectors; weight is (vocabulary, width)."""

    NEEDS_SEQUENCE: ClassVar[bool] = True
    TENSOR_PARALLEL: ClassVar[Literal["embedding"]] = "embedding"
    TAKES_PIECES: ClassVar[bool] = True

    vocabulary: int
    width: int

    def gives(self, width: int) -> int:
        """The width of the vectors."""
        return self.width

    @property
    def tokens(self) -> int:
        """The vocabulary."""
        return self.vocabulary

    def shapes(self) -> Parameters:
        """A vector for every id."""
        return {"weight": (self.vocabulary, self.width)}

    def misplaced(self, path: str, sequence: int, first: Layer) -> str:
        """Only layer 0 is given ids."""
        if path != "0":
            return "is an embedding; only layer 0 may be one"
        return super().misplaced(path, sequence, first)

    @property
    def complexity(self) -> int:
        """More than a linear layer: its inputs are ids."""
        return 2

    def plainer(self) -> Linear:
        """A linear layer of the same width, fed with floats."""
        return Linear(inputs=self.width, outputs=self.width, bias=False)

    def fitted(self, width: int, first: Layer | None) -> "Embedding":
        """The same layer: ids have no width to fit."""
        return self

    @property
    def new_width(self) -> int:
        """The width of the vectors."""
        return self.width

    def of_torch(self) -> OfTorch:
        """The table."""
        return OfTorch("Embedding", (self.vocabulary, self.width))
