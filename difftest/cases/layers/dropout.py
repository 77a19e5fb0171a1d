"""Dropout with a mask from the host."""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from difftest.cases.layer import Layer

MOST_DROPPED = 0.9

SCRIPT_CLASS = """\
class Dropout(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def forward(self, x):
        return x * getattr(EXTRAS, self.mask)"""


class Dropout(Layer, frozen=True, kw_only=True, tag="dropout"):
    """Zeroes a `share` of the values and scales the others by `1 / (1 - share)`.

    The mask is drawn on the host and fed.
    """

    SCRIPT_CLASS: ClassVar[str] = SCRIPT_CLASS

    width: int
    share: float = 0.5

    @property
    def reads_mask(self) -> bool:
        """It always reads one."""
        return True

    def mask(self, lead: tuple[int, ...], random: np.random.Generator) -> npt.NDArray[np.float64]:
        """A mask (*`lead`, width): 0 with the probability `share`, else the factor that keeps the mean."""
        kept = random.random((*lead, self.width)) >= self.share
        return np.asarray(kept / (1.0 - self.share), dtype=np.float64)

    def mask_spelled(self, lead: str, torch_by: str | None = None) -> str:
        """The same in a script."""
        shape = f"{lead} {self.width}"
        drawn = f"RNG.random(({shape}))" if torch_by is None else f"torch.rand(({shape}){torch_by})"
        return f"({drawn} >= {self.share}) / {1.0 - self.share}"

    def contradiction(self) -> str:
        """The share may not be so large that nothing is left."""
        return (
            "" if 0.0 <= self.share <= MOST_DROPPED else f"share {self.share}; allowed: 0 to {MOST_DROPPED}"
        )

    def spelled(self, path: str, *, moves: bool) -> str:
        """The script's own class, which reads the mask of its path."""
        return f'Dropout("mask {path}")'
