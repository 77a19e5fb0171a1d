"""Normalisation by the root mean square."""

from typing import ClassVar, Literal

from difftest.cases.layer import Layer, OfTorch, Parameters
from difftest.cases.schema import Positive


class RMSNorm(Layer, frozen=True, kw_only=True, omit_defaults=True, tag="rms_norm"):
    """Divides the last dim by its root mean square, then scales. `epsilon` is added to the mean square."""

    MAGNITUDE: ClassVar[Literal["rescales"]] = "rescales"
    TAKES_PIECES: ClassVar[bool] = True

    width: int
    epsilon: Positive = 1e-6

    def shapes(self) -> Parameters:
        """A scale for every column."""
        return {"weight": (self.width,)}

    @property
    def complexity(self) -> int:
        """More than an elementwise layer."""
        return 2

    def of_torch(self) -> OfTorch:
        """Its default epsilon depends on the dtype, so one is given."""
        return OfTorch("RMSNorm", (self.width,), {"eps": self.epsilon})
