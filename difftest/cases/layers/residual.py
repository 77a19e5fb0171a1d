"""The residual block."""

from typing import ClassVar

import difftest.cases.layers  # noqa: TC001  msgspec resolves the annotation below when it first decodes
from difftest.cases.layer import Layer


class Residual(Layer, frozen=True, kw_only=True, tag="residual"):
    """`x + layers(x)`."""

    TAKES_PIECES: ClassVar[bool] = True

    layers: tuple["difftest.cases.layers.AnyLayer", ...]

    @property
    def takes(self) -> int | None:
        """The width that its layers need; None if any will do."""
        return next((layer.takes for layer in self.layers if layer.takes is not None), None)

    @property
    def held(self) -> tuple[Layer, ...]:
        """Its layers."""
        return self.layers

    def holding(self, layers: tuple[Layer, ...]) -> "Residual":
        """A block of these layers."""
        return Residual(layers=layers)
