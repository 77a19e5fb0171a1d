"""Dyadic ranges: what the exact channel knows of a tensor's values without computing them."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """Multiples of `grain` up to `bound` in magnitude."""

    bound: float
    grain: float

    def __mul__(self, other: "Range") -> "Range":
        return Range(self.bound * other.bound, self.grain * other.grain)

    def __add__(self, other: "Range") -> "Range":
        return Range(self.bound + other.bound, min(self.grain, other.grain))

    def summed(self, terms: int) -> "Range":
        """The range of a sum of `terms` such values."""
        return Range(self.bound * terms, self.grain)

    def scaled(self, factor: float) -> "Range":
        """The range of such a value times a power of two."""
        return Range(self.bound * factor, self.grain * factor)

    @property
    def bits(self) -> float:
        """The number of significand bits that hold every value."""
        return math.log2(self.bound / self.grain + 1)


def is_dyadic(number: float) -> bool:
    """Whether `number` is a positive power of two."""
    return math.frexp(number)[0] == 0.5  # noqa: PLR2004  the significand of a power of two
