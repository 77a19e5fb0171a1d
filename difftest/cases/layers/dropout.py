"""Dropout with a mask from the host."""

import numpy as np
import numpy.typing as npt

from difftest.cases.layer import Layer

MOST_DROPPED = 0.9


class Dropout(Layer, frozen=True, kw_only=True, tag="dropout"):
    """Zeroes a `share` of the values and scales the rest by `1 / (1 - share)`; the mask is drawn on the host and fed."""

    width: int
    share: float = 0.5

    @property
    def reads_mask(self) -> bool:
        """Always."""
        return True

    def mask(self, lead: tuple[int, ...], random: np.random.Generator) -> npt.NDArray[np.float64]:
        """0 with the probability `share`, else what keeps the mean: (*`lead`, width)."""
        kept = random.random((*lead, self.width)) >= self.share
        return np.asarray(kept / (1.0 - self.share), dtype=np.float64)

    def contradiction(self) -> str:
        """Something must be left."""
        return (
            "" if 0.0 <= self.share <= MOST_DROPPED else f"share {self.share}; allowed: 0 to {MOST_DROPPED}"
        )

    def spelled(self, path: str, *, moves: bool) -> str:  # noqa: ARG002  alike everywhere
        """The script's own class, which reads the mask of its path."""
        return f'Dropout("mask {path}")'
