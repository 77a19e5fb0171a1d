"""HLO's products and windows: dot, convolution, reduce-window."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from difftest.passes.arrays import Array
from difftest.passes.hlo import Instruction
from difftest.passes.movement import padded


def dot(x: Array, y: Array, instruction: Instruction) -> Array:
    """A product over the contracted dims; batch dims come first, then those of `x`, then those of `y`."""
    batches = instruction.numbers("lhs_batch_dims"), instruction.numbers("rhs_batch_dims")
    contracted = instruction.numbers("lhs_contracting_dims"), instruction.numbers("rhs_contracting_dims")
    of_y, fresh = dict[int, int](), x.ndim
    for mine, other in zip((*batches[0], *contracted[0]), (*batches[1], *contracted[1]), strict=True):
        of_y[other] = mine
    for dim in range(y.ndim):
        if dim not in of_y:
            of_y[dim], fresh = fresh, fresh + 1
    free_x = [dim for dim in range(x.ndim) if dim not in batches[0] and dim not in contracted[0]]
    free_y = [of_y[dim] for dim in range(y.ndim) if dim not in batches[1] and dim not in contracted[1]]
    names = [*batches[0], *free_x, *free_y]
    return np.asarray(np.einsum(x, list(range(x.ndim)), y, [of_y[dim] for dim in range(y.ndim)], names))


@dataclass(frozen=True, slots=True)
class Window:
    """A window over dims: sizes, strides, padding, and how operand and window are spread."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[tuple[int, int], ...]
    base: tuple[int, ...]
    spread: tuple[int, ...]
    reversed: tuple[bool, ...]

    def views(self, x: Array, value: Array | float, first: int = 0) -> Array:
        """`x` with its dims from `first` on windowed, and a dim for each dim of the window at the end."""
        for dim, ((low, high), base) in enumerate(zip(self.pad, self.base, strict=True)):
            x = padded(x, first + dim, low, high, base - 1, value)
        last = range(first, first + len(self.size))
        extents = [(size - 1) * spread + 1 for size, spread in zip(self.size, self.spread, strict=True)]
        views = np.lib.stride_tricks.sliding_window_view(x, extents, tuple(last))
        at = (slice(None),) * first + tuple(slice(None, None, step) for step in self.stride)
        inside = tuple(slice(None, None, step) for step in self.spread)
        return views[(*at, *(slice(None),) * (views.ndim - len(at) - len(inside)), *inside)]


def window_of(instruction: Instruction) -> Window:
    """The window of an attribute such as `window={size=3 stride=2 pad=1_1}`."""
    fields = dict(re.findall(r"(\w+)=([\dx_\-]+)", instruction.attributes.get("window", "")))
    size = _dims(fields.get("size", ""))
    ones = "x".join("1" * len(size))
    pads = [part.split("_") for part in fields.get("pad", "x".join(["0_0"] * len(size))).split("x") if part]
    return Window(
        size=size,
        stride=_dims(fields.get("stride", ones)),
        pad=tuple((int(low), int(high)) for low, high in pads),
        base=_dims(fields.get("lhs_dilate", ones)),
        spread=_dims(fields.get("rhs_dilate", ones)),
        reversed=tuple(bool(flag) for flag in _dims(fields.get("rhs_reversal", "x".join("0" * len(size))))),
    )


def _dims(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("x") if part)


def convolution(x: Array, kernel: Array, instruction: Instruction) -> Array:
    """A convolution, of groups of features or of the batch."""
    of_input, of_kernel, of_output = re.split(r"_|->", instruction.attributes["dim_labels"])
    digits = sorted(label for label in of_input if label.isdigit())
    x = x.transpose([of_input.index(label) for label in ("b", "f", *digits)])
    kernel = kernel.transpose([of_kernel.index(label) for label in ("o", "i", *digits)])
    window = window_of(instruction)
    flips = tuple(slice(None, None, -1 if flag else None) for flag in window.reversed)
    kernel = kernel[(slice(None), slice(None), *flips)]
    features = int(instruction.attributes.get("feature_group_count", "1"))
    batches = int(instruction.attributes.get("batch_group_count", "1"))
    xs = np.split(x, features, 1) if features > 1 else np.split(x, batches, 0)
    kernels = np.split(kernel, max(features, batches), 0)
    places, axes = (list(range(first, first + len(digits))) for first in (3, 3 + len(digits)))
    parts = []
    for part, weights in zip(xs, kernels, strict=True):
        views = window.views(part, 0, 2)
        parts.append(np.einsum(views, [0, 1, *places, *axes], weights, [2, 1, *axes], [0, 2, *places]))
    result = np.concatenate(parts, 1)
    return result.transpose([["b", "f", *digits].index(label) for label in of_output])


Fold: TypeAlias = Callable[[list[Array], list[Array], tuple[int, ...]], list[Array]]
"""Reduces arrays over dims, starting with the initial values."""


def reduce_window(xs: list[Array], initial: list[Array], instruction: Instruction, fold: Fold) -> list[Array]:
    """The reduction of every window."""
    window = window_of(instruction)
    views = [window.views(x, value) for x, value in zip(xs, initial, strict=True)]
    rank = len(window.size)
    return fold(views, initial, tuple(range(rank, 2 * rank)))


def select_and_scatter(  # noqa: PLR0913, PLR0917  HLO's operands
    x: Array,
    source: Array,
    initial: Array,
    instruction: Instruction,
    selects: Callable[[Array, Array], bool],
    adds: Callable[[Array, Array], Array],
) -> Array:
    """`source` added to the element of each window of `x` that is selected."""
    window = window_of(instruction)
    result = np.full(x.shape, initial, source.dtype)
    for at in np.ndindex(*source.shape):
        best: tuple[int, ...] | None = None
        for inside in np.ndindex(*window.size):
            place = tuple(
                a * step - low + i * spread
                for a, i, step, spread, (low, _) in zip(
                    at, inside, window.stride, window.spread, window.pad, strict=True
                )
            )
            outside = any(p < 0 or p >= size for p, size in zip(place, x.shape, strict=True))
            if outside or (best is not None and selects(x[best], x[place])):
                continue
            best = place
        if best is not None:
            result[best] = adds(result[best], source[at])
    return result
