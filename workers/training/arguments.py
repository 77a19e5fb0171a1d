"""From an operator's arguments as data to what torch takes, and from its name to what is called."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, overrides

from difftest.cases.calls import NAMESPACES
from difftest.cases.layers.operator import Argument, Items, Named, Reference, full_name
from workers.training.dtypes import Dtypes

METHOD = "Tensor."
ATEN = "ops.aten."
WINDOWS = "signal.windows"

FORBIDDEN = frozenset({"from_file"})
"""Operators of aten that reach beyond tensors: a case may come from elsewhere, and must not write files."""


@dataclass(frozen=True, slots=True)
class Resolver:
    """What the arguments of the operator at `path` stand for, given every tensor so far by full name."""

    path: str
    tensors: Mapping[str, Any]
    dtypes: Dtypes

    def resolved(self, argument: Argument) -> Any:  # noqa: ANN401  what torch takes
        """The object that `argument` stands for; `KeyError` for an unknown tensor."""
        match argument:
            case Reference(name=name):
                return self.tensors[full_name(self.path, name)]
            case Items(items=items, kind=kind):
                inner = [self.resolved(item) for item in items]
                return tuple(inner) if kind == "tuple" else inner
            case Named():
                return self._named(argument)
        return argument

    def _named(self, argument: Named) -> Any:  # noqa: ANN401  what torch takes
        text = argument.text
        match argument.kind:
            case "dtype":
                return self.dtypes.named(text)
            case "memory_format" | "layout":
                return _of_type(text, getattr(torch, argument.kind))
            case "number":
                return complex(text) if "j" in text else float(text)
            case "slice":
                return slice(*(int(bound) if bound else None for bound in text.split(":")))
            case "ellipsis":
                return ...


def _of_type(name: str, kind: type) -> Any:  # noqa: ANN401  an object of torch
    value = getattr(torch, name, None)
    if not isinstance(value, kind):
        msg = f"{name!r} names no torch.{kind.__name__}"
        raise TypeError(msg)
    return value


class LackingError(NotImplementedError, ValueError):
    """There is no such operator in this torch: a program of another version's is refused, and no finding."""


def called(call: str) -> Callable[..., Any]:
    """What `call` names: an operator of torch or of aten, or a method of a tensor.

    An attribute of a tensor, such as `Tensor.real`, is called with the tensor. `LackingError` for anything
    else: what torch does not dispatch as an operator may reach beyond tensors.
    """
    name = call.removeprefix("torch.")
    namespace, _, own = name.rpartition(".")
    if name.startswith(METHOD):
        operator = _method(name.removeprefix(METHOD))
    elif name.startswith(ATEN):
        operator = _aten(name.removeprefix(ATEN))
    else:
        operator = _function(namespace, own)
    if operator is None:
        msg = f"{call!r} is no operator of torch {torch.__version__}"
        raise LackingError(msg)
    return operator


def _method(name: str) -> Callable[..., Any] | None:
    """A method or an attribute of `torch.Tensor`; None where it has none."""
    own = getattr(Tensor, name, None)
    if own is None or (callable(own) and own not in _overridable() and name not in _dispatched()):
        return None

    def call(tensor: Tensor, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401  as torch
        attribute = getattr(tensor, name)
        return attribute(*arguments, **options) if callable(attribute) else attribute

    return call


def _aten(name: str) -> Callable[..., Any] | None:
    """The aten operator `name`, or an overload such as `add.Tensor`; None where the dispatcher has none."""
    packet, _, overload = name.partition(".")
    if packet not in _dispatched():
        return None
    operator: Callable[..., Any] | None = getattr(torch.ops.aten, packet)
    return getattr(operator, overload, None) if overload else operator


def _function(namespace: str, name: str) -> Callable[..., Any] | None:
    """A function below `torch` that takes tensors or makes one; None where there is none."""
    if namespace not in ("", *NAMESPACES):
        return None
    function = getattr(attrgetter(namespace)(torch) if namespace else torch, name, None)
    if not callable(function):
        return None
    makes = (name in _dispatched() and not namespace) or namespace == WINDOWS
    module, _, _ = (getattr(function, "__module__", None) or "").partition("._")  # torch.masked._ops
    own = module == f"torch.{namespace}"
    return function if makes or own or function in _overridable() else None


def warm() -> None:
    """Looks up the names of torch's operators, which takes longer than a program does."""
    _overridable()
    _dispatched()


@cache
def _overridable() -> frozenset[Callable[..., Any]]:
    """The functions and methods that take tensors."""
    listed = overrides.get_overridable_functions().values()
    return frozenset(function for functions in listed for function in functions)


@cache
def _dispatched() -> frozenset[str]:
    """The names of aten's operators, without their overloads."""
    names = torch._C._dispatch_get_all_op_names()  # noqa: SLF001  no public equivalent
    packets = (name.removeprefix("aten::").partition(".")[0] for name in names if name.startswith("aten::"))
    return frozenset(packets) - FORBIDDEN
