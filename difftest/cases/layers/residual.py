"""The residual block."""

from collections.abc import Iterator
from typing import ClassVar

import msgspec

import difftest.cases.layers  # noqa: TC001  msgspec resolves the annotation below when it first decodes
from difftest.cases.layer import Layer, Removable


class Residual(Layer, frozen=True, kw_only=True, omit_defaults=True, tag="residual"):
    """`x + layers(x)`; several `times`, one behind the other, with the same weights."""

    TAKES_PIECES: ClassVar[bool] = True

    layers: tuple["difftest.cases.layers.AnyLayer", ...]
    times: int = 1

    @property
    def takes(self) -> int | None:
        """The width that its layers need; None if any will do."""
        return next((layer.takes for layer in self.layers if layer.takes is not None), None)

    @property
    def held(self) -> tuple[Layer, ...]:
        """Its layers."""
        return self.layers

    def holding(self, layers: tuple[Layer, ...]) -> "Residual":
        """A block of these layers, as often."""
        return msgspec.structs.replace(self, layers=layers)

    @property
    def extent(self) -> int:
        """How often more than once."""
        return self.times - 1

    def removable(self) -> tuple[Removable, ...]:
        """All times but one."""
        return ((f"is applied {self.times} times", {"times": 1}),) if self.times > 1 else ()

    def features(self) -> Iterator[str]:
        """Whether its weights are used more than once."""
        if self.times > 1:
            yield f"applied {self.times} times"
