"""Operators that are a function of numpy, under torch's own name or another."""

from collections.abc import Mapping

from workers.references.layers import Array
from workers.references.operators import Formula

SAME_NAME = frozenset(
    {
        "ceil",
        "cos",
        "cosh",
        "deg2rad",
        "dot",
        "exp",
        "exp2",
        "expm1",
        "fliplr",
        "flipud",
        "floor",
        "inner",
        "isfinite",
        "isinf",
        "isnan",
        "kron",
        "log",
        "log10",
        "log2",
        "logical_and",
        "logical_not",
        "logical_or",
        "logical_xor",
        "matmul",
        "maximum",
        "minimum",
        "outer",
        "positive",
        "rad2deg",
        "ravel",
        "sign",
        "signbit",
        "sin",
        "sinc",
        "sinh",
        "sqrt",
        "square",
        "tan",
        "trace",
        "trunc",
    }
)
"""Functions that numpy has under torch's own names."""

OTHER_NAME: Mapping[str, str] = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bmm": "matmul",
    "eq": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "lt": "less",
    "mm": "matmul",
    "mv": "matmul",
    "ne": "not_equal",
    "neg": "negative",
    "remainder": "mod",
    "sgn": "sign",
    "true_divide": "divide",
    "vdot": "dot",
}
"""Functions of one numpy name and another of torch's."""


def _of_numpy(name: str) -> Formula:
    def formula(np: Array, *arrays: Array) -> Array:
        return getattr(np, name)(*arrays)

    return formula


FORMULAS: Mapping[str, Formula] = {
    **{name: _of_numpy(name) for name in sorted(SAME_NAME)},
    **{name: _of_numpy(named) for name, named in OTHER_NAME.items()},
}
