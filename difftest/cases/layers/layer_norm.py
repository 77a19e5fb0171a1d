"""Layer normalisation."""

from typing import ClassVar, Literal

from difftest.cases.layer import Layer, OfTorch, Parameters
from difftest.cases.layers.rms_norm import RMSNorm


class LayerNorm(Layer, frozen=True, kw_only=True, tag="layer_norm"):
    """Normalises the last dim to mean 0 and variance 1, then scales and shifts."""

    MAGNITUDE: ClassVar[Literal["rescales"]] = "rescales"
    TAKES_PIECES: ClassVar[bool] = True

    width: int

    def shapes(self) -> Parameters:
        """A scale and a shift for every column."""
        return {"weight": (self.width,), "bias": (self.width,)}

    @property
    def complexity(self) -> int:
        """One more than `RMSNorm`, which has no mean."""
        return 3

    def plainer(self) -> RMSNorm:
        """The norm without a mean."""
        return RMSNorm(width=self.width)

    def of_torch(self) -> OfTorch:
        """With its own epsilon."""
        return OfTorch("LayerNorm", (self.width,))
