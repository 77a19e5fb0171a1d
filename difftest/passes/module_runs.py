"""A run of a module: its arguments, of the program's own or drawn, and its results."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from difftest.passes.arrays import Array, dtype_of
from difftest.passes.hlo import HloModule, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRun:
    """A run of a module: its arguments and, where the frontend gave them, its results, whole arrays."""

    arguments: tuple[Array, ...]
    results: tuple[Array, ...] = ()
    numbers: str = "its own numbers"


REGIMES = ("ordinary numbers", "numbers of which some are not finite", "large numbers")
"""The numbers on which a module runs whose own are not at hand, in this order."""


def drawn(module: HloModule) -> Iterator[ModuleRun]:
    """Calls of a module with numbers of each of `REGIMES`."""
    for regime in REGIMES:
        random = np.random.default_rng(len(module.entry.parameters))
        arguments = tuple(_draw(parameter.shape, regime, random) for parameter in module.entry.parameters)
        yield ModuleRun(arguments=arguments, numbers=regime)


def _draw(shape: Shape, regime: str, random: np.random.Generator) -> Array:
    dtype = dtype_of(shape.type, wide=False)
    if dtype.kind in "iub":  # as an index, beyond most dims in the second regime
        most = 9 if regime == REGIMES[1] and dtype.kind != "b" else 2
        return np.asarray(random.integers(0, most, shape.dims)).astype(dtype)
    plain = random.normal(size=shape.dims)
    if regime == REGIMES[1]:
        plain = np.where(random.random(shape.dims) < 0.2, random.choice([np.nan, np.inf, -np.inf]), plain)  # noqa: PLR2004  a fifth
    elif regime == REGIMES[2]:
        plain = 1000 + plain
    return np.asarray(plain).astype(dtype)
