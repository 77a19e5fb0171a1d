"""The definitions of torch's operators: a table from an operator to the function of numpy that it is.

Programs whose operators are all in the table are computed, with the arguments that the function takes too.
Where torch's documentation gives a formula, the entry is that formula.
"""

from collections.abc import Callable, Mapping
from typing import Any

from difftest.cases import numbers
from difftest.cases.case import Case
from difftest.cases.layers.operator import Operator, Reference, full_name
from workers.references.layers import Array

SAME_NAME = frozenset(
    {
        "abs",
        "add",
        "amax",
        "amin",
        "arccos",
        "arccosh",
        "arcsin",
        "arcsinh",
        "arctan",
        "arctanh",
        "ceil",
        "cos",
        "cosh",
        "cumprod",
        "cumsum",
        "deg2rad",
        "diagonal",
        "divide",
        "dot",
        "exp",
        "exp2",
        "expm1",
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
        "log1p",
        "log2",
        "logaddexp",
        "logaddexp2",
        "logical_and",
        "logical_not",
        "logical_or",
        "logical_xor",
        "matmul",
        "maximum",
        "mean",
        "minimum",
        "moveaxis",
        "multiply",
        "negative",
        "outer",
        "positive",
        "prod",
        "rad2deg",
        "ravel",
        "roll",
        "sign",
        "signbit",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "subtract",
        "sum",
        "swapaxes",
        "tan",
        "tanh",
        "trace",
        "tril",
        "triu",
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
    "div": "divide",
    "eq": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "lt": "less",
    "mm": "matmul",
    "mul": "multiply",
    "mv": "matmul",
    "ne": "not_equal",
    "neg": "negative",
    "special.exp2": "exp2",
    "special.expm1": "expm1",
    "special.log1p": "log1p",
    "sub": "subtract",
    "true_divide": "divide",
}
"""Functions of one numpy name and another of torch's."""

FORMULAS: Mapping[str, Callable[..., Array]] = {
    "addbmm": lambda _np, x, y, z: x + (y @ z).sum(0),
    "addcdiv": lambda _np, x, y, z: x + y / z,
    "addcmul": lambda _np, x, y, z: x + y * z,
    "addmm": lambda _np, x, y, z: x + y @ z,
    "addmv": lambda _np, x, y, z: x + y @ z,
    "addr": lambda np, x, y, z: x + np.outer(y, z),
    "baddbmm": lambda _np, x, y, z: x + y @ z,
    "frac": lambda np, x: x - np.trunc(x),
    "lerp": lambda _np, x, y, share: x + share * (y - x),
    "logit": lambda np, x: np.log(x / (1 - x)),
    "relu": lambda np, x: np.where(x > 0, x, 0.0),
    "rsub": lambda _np, x, y: y - x,
    "t": lambda _np, x: x.T,
    "nn.functional.l1_loss": lambda np, x, y: np.abs(x - y).mean(),
    "nn.functional.relu": lambda np, x: np.where(x > 0, x, 0.0),
    "reciprocal": lambda _np, x: 1 / x,
    "rsqrt": lambda np, x: 1 / np.sqrt(x),
    "sigmoid": lambda np, x: 1 / (1 + np.exp(-x)),
    "special.expit": lambda np, x: 1 / (1 + np.exp(-x)),
    "nn.functional.logsigmoid": lambda np, x: np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x))),
    "nn.functional.mse_loss": lambda _np, x, y: ((x - y) ** 2).mean(),
    "nn.functional.silu": lambda np, x: x / (1 + np.exp(-x)),
    "nn.functional.softsign": lambda np, x: x / (1 + np.abs(x)),
    "nn.functional.tanhshrink": lambda np, x: x - np.tanh(x),
    "nn.functional.linear": lambda _np, x, weight, *bias: x @ weight.T + (bias[0] if bias else 0.0),
}
"""Functions of torch that numpy lacks, by the formulas of torch's documentation."""


def function(call: str) -> Callable[..., Array] | None:
    """The definition of an operator, which is given the module of arrays first; None where there is none."""
    name = call.removeprefix("torch.").removeprefix("Tensor.")
    if name in FORMULAS:
        return FORMULAS[name]
    named = name if name in SAME_NAME else OTHER_NAME.get(name)
    return (lambda np, *given: getattr(np, named)(*given)) if named else None


def lacks(case: Case) -> str:
    """Which operator of a program has no definition here; empty where all have one."""
    if case.model.rejects or case.model.undefined:
        return "its arguments are torch's own matter"
    if case.training.loss != "cotangent":
        return f"no definition of the loss {case.training.loss!r}"
    return next(filter(None, map(_lack, case.model.layers)), "")


def _lack(layer: Any) -> str:  # noqa: ANN401  any layer of a program
    if (
        not isinstance(layer, Operator)
        or layer.kind != "operator"
        or layer.form not in {"function", "method"}
    ):
        return f"no definition of {layer.title} in this form"
    simple = all(isinstance(one, Reference | int | float) for one in layer.arguments) and not layer.options
    floats = all(operand.dtype in {"float", "float64"} for operand in layer.operands.values())
    if not function(layer.call) or not simple or not floats:
        return f"no definition of {layer.title} with these arguments"
    return ""


def results(case: Case, weights: Mapping[str, Array], np: Any) -> dict[str, Array]:  # noqa: ANN401  a module
    """The result of every operator by its full name, such as `0.output`."""
    tensors = dict(weights)
    for path, layer in case.model.operators.items():
        given = [
            tensors[full_name(path, one.name)] if isinstance(one, Reference) else one
            for one in layer.arguments
        ]
        definition = function(layer.call)
        assert definition is not None  # noqa: S101  `lacks` says it
        tensors[f"{path}.output"] = definition(np, *given)
    return {name: value for name, value in tensors.items() if name not in weights}


def loss(case: Case, computed: Mapping[str, Array], np: Any) -> Array:  # noqa: ANN401  a module
    """The sum of every differentiable result times the numbers drawn for it; None where there is none."""
    used = {name: value for name, value in computed.items() if np.issubdtype(value.dtype, np.floating)}
    parts = [(value * numbers.cotangent(case, name, value.shape)).sum() for name, value in used.items()]
    return sum(parts) if parts else None
