"""Operators that are a function of numpy, under torch's own name or another."""

from collections.abc import Mapping

from workers.references.layers import Array
from workers.references.operators import Formula

SAME_NAME = frozenset(
    {
        "arccos",
        "arccosh",
        "arcsin",
        "arcsinh",
        "arctan",
        "arctanh",
        "ceil",
        "copysign",
        "cos",
        "cosh",
        "deg2rad",
        "divide",
        "dot",
        "exp",
        "exp2",
        "expm1",
        "fliplr",
        "flipud",
        "floor",
        "fmax",
        "fmin",
        "hypot",
        "inner",
        "isfinite",
        "isinf",
        "isnan",
        "kron",
        "log",
        "log10",
        "log2",
        "logaddexp",
        "logaddexp2",
        "logical_and",
        "logical_not",
        "logical_or",
        "logical_xor",
        "matmul",
        "maximum",
        "minimum",
        "multiply",
        "negative",
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
        "subtract",
        "swapaxes",
        "tan",
        "tanh",
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
    "greater": "greater",
    "le": "less_equal",
    "less": "less",
    "lt": "less",
    "mm": "matmul",
    "mv": "matmul",
    "ne": "not_equal",
    "neg": "negative",
    "remainder": "mod",
    "sgn": "sign",
    "special.exp2": "exp2",
    "special.expm1": "expm1",
    "special.sinc": "sinc",
    "true_divide": "divide",
    "vdot": "dot",
}
"""Functions of one numpy name and another of torch's."""


def _of_numpy(name: str) -> Formula:
    def formula(np: Array, *given: Array) -> Array:
        return getattr(np, name)(*given)

    return formula


FORMULAS: Mapping[str, Formula] = {
    **{name: _of_numpy(name) for name in sorted(SAME_NAME)},
    **{name: _of_numpy(named) for name, named in OTHER_NAME.items()},
}
