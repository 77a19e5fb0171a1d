"""Activation functions."""

from collections.abc import Iterator
from typing import ClassVar, Literal, TypeAlias

from difftest.cases.layer import Layer, OfTorch

Function: TypeAlias = Literal["relu", "gelu", "silu", "tanh"]

CLASSES: dict[Function, str] = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "tanh": "Tanh"}


class Activation(Layer, frozen=True, kw_only=True, tag="activation"):
    """An elementwise nonlinearity."""

    ELEMENTWISE: ClassVar[bool] = True
    TAKES_PIECES: ClassVar[bool] = True

    function: Function

    @property
    def title(self) -> str:
        """The function's name."""
        return self.function

    def rounds(self) -> str:
        """Only relu is exact: it chooses between its input and 0."""
        return "" if self.function == "relu" else super().rounds()

    @property
    def complexity(self) -> int:
        """The plainest function is relu."""
        return 1 + (self.function != "relu")

    def plainer(self) -> "Activation":
        """The plainest function, relu."""
        return Activation(function="relu")

    def features(self) -> Iterator[str]:
        """The function's name."""
        yield self.function

    def of_torch(self) -> OfTorch:
        """The function's module."""
        return OfTorch(CLASSES[self.function])
