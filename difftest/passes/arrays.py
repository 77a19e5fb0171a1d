"""HLO's element types as numpy arrays, in their own precision or in a greater one."""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from difftest.passes.hlo import Shape, UnreadableError

Array: TypeAlias = NDArray[Any]

Each: TypeAlias = list[Any]
"""A value for each device."""


class NotEvaluatedError(UnreadableError):
    """An instruction that is not evaluated."""


BITS = (8, 16, 32, 64)
"""The sizes of integers."""

_OWN: Mapping[str, Any] = {
    "pred": np.bool_,
    **{f"s{bits}": f"int{bits}" for bits in BITS},
    **{f"u{bits}": f"uint{bits}" for bits in BITS},
    "s4": np.int8,
    "u4": np.uint8,
    "s2": np.int8,
    "u2": np.uint8,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": np.float32,
    "c64": np.complex64,
    "c128": np.complex128,
    "token": np.bool_,
}
_WIDE: Mapping[str, Any] = {
    "f16": np.float64,
    "bf16": np.float64,
    "f32": np.float64,
    "f64": np.longdouble,
    "c64": np.complex128,
    "c128": np.clongdouble,
}
ROUNDOFF = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24, "c64": 2.0**-24}
"""The unit roundoff of an element type; that of float64 for all others."""

_BFLOAT_BITS = 16
_ITEM = re.compile(r"\([^()]*\)|[^\s,{}()]+")


def dtype_of(element: str, *, wide: bool) -> np.dtype[Any]:
    """The dtype that holds an element type; `UnreadableError` for one that numpy does not have."""
    if wide and element in _WIDE:
        return cast("np.dtype[Any]", np.dtype(_WIDE[element]))
    if element not in _OWN:
        msg = f"the element type {element!r} is not supported; allowed: {', '.join(_OWN)}"
        raise UnreadableError(msg)
    return cast("np.dtype[Any]", np.dtype(_OWN[element]))


def rounded(array: Array, element: str, *, wide: bool) -> Array:
    """`array` as an element type holds it."""
    own = np.asarray(array).astype(dtype_of(element, wide=wide), copy=False)
    if element != "bf16" or wide:
        return own
    bits = own.view(np.uint32)
    to_even = np.uint32(0x7FFF) + ((bits >> np.uint32(_BFLOAT_BITS)) & np.uint32(1))
    shortened = ((bits + to_even) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.asarray(np.where(np.isnan(own), own, shortened), np.float32)


def literal(text: str, shape: Shape, *, wide: bool) -> Array:
    """The array of a constant's text; `UnreadableError` where the dump left its numbers out."""
    items = _ITEM.findall(text)
    dtype = dtype_of(shape.type, wide=wide)
    if "..." in items:
        msg = "a constant is left out of the text; dump with --xla_dump_large_constants"
        raise UnreadableError(msg)
    values = [_number(item, shape.type, dtype) for item in items]
    numbers = np.array(values, dtype) if values else np.zeros(shape.dims, dtype)
    return rounded(numbers.reshape(shape.dims), shape.type, wide=wide)


def _number(item: str, element: str, dtype: np.dtype[Any]) -> object:
    if element == "pred":
        return item in ("true", "1")
    if element.startswith("c"):
        real, imaginary = item.strip("()").split(",")
        return complex(float(real), float(imaginary))
    if dtype.kind in "iu":
        return int(item)
    plain = item.partition("(")[0]
    return np.longdouble(plain) if dtype == np.longdouble else float(plain)
