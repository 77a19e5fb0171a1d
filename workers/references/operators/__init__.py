"""The definitions of torch's operators, a file for each kind of them: functions of torch's own arguments.

A definition is a formula in numpy, with the names and defaults of torch's documentation; JAX differentiates
it. Programs whose operators all have one, with the arguments that it takes, are computed.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Protocol, TypeAlias, cast, get_args

from difftest.cases import numbers
from difftest.cases.case import Case
from difftest.cases.layers.operator import Argument, Items, Named, Operator, Reference, full_name
from difftest.ground import plugins
from workers.references.layers import Array
from workers.references.optimizers import Floats

Formula: TypeAlias = Callable[..., Any]
"""The result of an operator, or a tuple of several: of the module of arrays, and torch's own arguments."""

WHOLE = {"index": "int64", "target": "int64", "mask": "bool", "condition": "bool"}
"""The arguments that may be no floats, and how a definition gets those."""

FLOAT64 = frozenset({"float", "float64"})
"""The dtypes of a twin's floats."""

OF_EACH = "_foreach_"
"""The beginning of an operator's name that does to every tensor of a list what the rest of its name says."""

_PREFIXES = ("torch.ops.aten.", "torch.", "Tensor.")


class Definitions(Protocol):
    """What a file in this folder offers."""

    @property
    def FORMULAS(self) -> Mapping[str, Formula]:  # noqa: N802  a constant of the file
        """The definitions by torch's names, without `torch.` or `Tensor.`."""


def load(name: str) -> Definitions:
    """The definitions of the operators of one kind; `UsageError` when there is no such kind."""
    return cast("Definitions", plugins.load(__name__, name))


@cache
def formulas() -> Mapping[str, Formula]:
    """All definitions by torch's names."""
    files = plugins.names(__name__)
    return {name: formula for file in files for name, formula in load(file).FORMULAS.items()}


def plain_name(call: str) -> str:
    """The name under which `FORMULAS` has what is called, with or without `_foreach_`."""
    prefix = next((prefix for prefix in _PREFIXES if call.startswith(prefix)), "")
    name = call.removeprefix(prefix).removesuffix(".default")
    return name if name.endswith("__") else name.removesuffix("_")  # `add_` is `add` into its argument


def function(call: str) -> Formula | None:
    """The definition of an operator, which is given the module of arrays first; None where there is none."""
    name = plain_name(call)
    if name.startswith(OF_EACH):
        return _of_each(name.removeprefix(OF_EACH))
    return formulas().get(name)


def _of_each(name: str) -> Formula | None:
    formula = formulas().get(name)
    if formula is None:
        return None

    def of_each(np: Array, tensors: tuple[Array, ...], others: Array = None) -> tuple[Array, ...]:
        if others is None:
            return tuple(formula(np, tensor) for tensor in tensors)
        beside = others if isinstance(others, tuple) else (others,) * len(tensors)
        return tuple(formula(np, tensor, other) for tensor, other in zip(tensors, beside, strict=True))

    return of_each


def lacks(case: Case) -> str:
    """Which operator of a program has no definition here; empty where all have one."""
    if case.model.rejects or case.model.undefined:
        return "its arguments are torch's own matter"
    if case.training.loss != "cotangent":
        return f"no definition of the loss {case.training.loss!r}"
    layers = case.model.operators
    if len(layers) < len(case.model.layers):
        return "no definition of a layer that is no operator"
    reasons = (_lack(layer, layers) for layer in layers.values())
    return next(filter(None, reasons), "")


def _lack(layer: Operator, layers: Mapping[str, Operator]) -> str:
    formula = function(layer.call) if layer.kind == "operator" else None
    if formula is None:
        return f"no definition of {layer.title}"
    if layer.form == "inplace" and not _writes_alone(layer, layers):
        return f"no definition of {layer.title}, which writes into what other operators read"
    signature = inspect.signature(formula)
    try:
        bound = signature.bind(None, *layer.arguments, **_options(layer))
    except TypeError:
        return f"no definition of {layer.title} with these arguments"
    words = {name: value for name, value in bound.arguments.items() if isinstance(value, str)}
    if any(word not in _words(signature.parameters[name].annotation) for name, word in words.items()):
        return f"no definition of {layer.title} of this kind"
    if any(_unfit(layer, name, argument) for name, argument in _flat(bound.arguments)):
        return f"no definition of {layer.title} with these tensors"
    return ""


def _words(annotation: object) -> Iterator[object]:
    """What a `Literal` in a parameter's type allows."""
    for part in get_args(annotation):
        yield from [part] if isinstance(part, str) else _words(part)


def _writes_alone(layer: Operator, layers: Mapping[str, Operator]) -> bool:
    """Whether no other operator reads what this one writes into, nor what that may be a view of."""
    target = layer.arguments[0]
    if not isinstance(target, Reference):
        return False
    read = [name for reader in layers.values() for name in reader.references()]
    if "." not in target.name:
        return True
    maker = layers.get(target.name.partition(".")[0])
    named = [name for name in read if name.startswith(f"{target.name.partition('.')[0]}.")]
    return (
        maker is not None and named == [target.name] and not any("." in name for name in maker.references())
    )


def _options(layer: Operator) -> Mapping[str, Argument]:
    """The options that a result depends on: not where it is written, nor how it lies in memory."""
    left_out = {"memory_format", "layout", *(("out",) if layer.form == "out" else ())}
    return {name: value for name, value in layer.options.items() if name not in left_out}


def _flat(bound: Mapping[str, Any]) -> Iterator[tuple[str, Argument]]:
    """The arguments of a call with the names that a definition has for them, without those of lists."""
    for name, value in bound.items():
        match value:
            case Items():
                yield from _flat({f"{name} {at}": item for at, item in enumerate(value.items)})
            case tuple():
                yield from _flat({f"{name} {at}": item for at, item in enumerate(value)})
            case dict():
                yield from _flat(value)
            case _:
                yield name, value


def _unfit(layer: Operator, name: str, argument: Argument) -> bool:
    """Whether an argument is none that definitions are given."""
    match argument:
        case Reference() if argument.name in layer.operands:
            operand, dtype = layer.operands[argument.name], layer.operands[argument.name].dtype
            if operand.memory == "expanded":  # torch is given one of its elements for many
                return True
            return dtype not in FLOAT64 and (
                name not in WHOLE or (dtype == "bool") != (WHOLE[name] == "bool")
            )
        case Named(kind="dtype"):
            return argument.text not in FLOAT64
        case Named(kind="number"):
            return complex(argument.text).imag != 0
        case Named():
            return True
    return False


def results(
    case: Case,
    weights: Mapping[str, Array],
    np: Any,  # noqa: ANN401  a module
    zeros: Mapping[str, Array] = {},
) -> dict[str, Array]:
    """The results of every operator by full name, such as `0.output`, or `0.output.1` of several.

    `zeros` are subtracted from the results of their names, which changes nothing: the gradient of a result is
    that of its zeros, with the other sign.
    """
    tensors = dict(weights)
    for path, layer in case.model.operators.items():
        result = _result(path, layer, tensors, np)
        several = isinstance(result, tuple)
        parts = {
            f"{path}.output" + f".{at}" * several: part
            for at, part in enumerate(result if several else (result,))
        }
        parts |= {name: part - zeros[name] for name, part in parts.items() if name in zeros}
        if layer.form == "inplace":
            tensors[full_name(path, next(layer.references()))] = next(iter(parts.values()))
        tensors |= parts
    return {name: value for name, value in tensors.items() if name not in weights}


def _result(path: str, layer: Operator, tensors: Mapping[str, Array], np: Any) -> Any:  # noqa: ANN401  arrays
    definition = function(layer.call)
    assert definition is not None  # noqa: S101  `lacks` says it

    def given(argument: Argument) -> Any:  # noqa: ANN401  what definitions take
        match argument:
            case Reference():
                value = tensors[full_name(path, argument.name)]
                operand = layer.operands.get(argument.name)
                if operand is None or operand.is_float:
                    return value
                return value.astype("bool" if operand.dtype == "bool" else "int64")
            case Items():
                return tuple(map(given, argument.items))
            case Named(kind="number"):
                return complex(argument.text).real
            case Named():
                return argument.text
        return argument

    options = {name: given(value) for name, value in _options(layer).items()}
    return definition(np, *map(given, layer.arguments), **options)


def cotangents(case: Case, computed: Mapping[str, Floats]) -> dict[str, Floats]:
    """The drawn numbers that the results with a gradient are multiplied by in the loss."""
    tracked = _tracked(case)
    return {
        name: numbers.cotangent(case, name, value.shape)
        for name, value in computed.items()
        if value.dtype.kind == "f" and name.partition(".output")[0] in tracked
    }


def loss(computed: Mapping[str, Array], drawn: Mapping[str, Array]) -> Array:
    """The sum of the results with a gradient times their numbers, the cotangents; 0.0 where there is none."""
    return sum(((computed[name] * factors).sum() for name, factors in drawn.items()), start=0.0)


def _tracked(case: Case) -> frozenset[str]:
    """The operands that have a gradient, and the paths of operators that are given one or a result of such.

    Autograd does not follow what is written into the operand `out`.
    """
    tracked = set[str]()
    for path, layer in case.model.operators.items():
        tracked |= {f"{path}.{name}" for name, one in layer.operands.items() if one.is_float and one.gradient}
        read = {full_name(path, name).partition(".output")[0] for name in layer.references()}
        if layer.form != "out" and read & tracked:
            tracked.add(path)
    return frozenset(tracked)
