"""Arguments of torch as data: tensors become operands, everything else an `Argument`."""

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from difftest.cases.layers.operator import (
    MOST_ELEMENTS,
    MOST_OPERANDS,
    Argument,
    Items,
    Memory,
    Named,
    Operand,
    OperandType,
    Reference,
)
from tools.operators.calls import Call

TYPES: Mapping[torch.dtype, OperandType] = {
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
    torch.float32: "float32",
    torch.float64: "float64",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.bool: "bool",
}

TAKEN = {"output", *dir(nn.Module())}
"""What an operand cannot be called: a module has it."""

DEVICES = ("cpu", "cuda")
"""What a string argument cannot be: a program's tensors are where its backend puts them."""

ON_HOST = ("tensor_split",)
"""Operators that take every operand but the first on the host, whatever device the first is on."""

DECIMALS = 3
"""Digits of the literal values of floats: enough for well-conditioned matrices to stay what they are."""


class NoDataError(Exception):
    """An argument cannot be written as data; the text says why."""


class Encoder:
    """The operands and arguments of one call.

    `explicit`: operands keep their own floating-point dtype; otherwise float32 is the case's.
    """

    def __init__(self, *, explicit: bool = False) -> None:
        self.explicit = explicit
        self.tensors: dict[str, Tensor] = {}
        self.operands: dict[str, Operand] = {}

    def encode(self, call: Call) -> tuple[tuple[Argument, ...], dict[str, Argument]]:
        """The arguments of `call`; `operands` and `tensors` have what they refer to."""
        arguments, options = self.arguments(call.args, _names(call)), self.options(call.kwargs)
        if call.name.rpartition(".")[2] in ON_HOST and len(self.operands) > 1:
            msg = "an operand that torch takes on the host alone"
            raise NoDataError(msg)
        if len(self.operands) > MOST_OPERANDS:
            msg = f"{len(self.operands)} operands"
            raise NoDataError(msg)
        return arguments, options

    def arguments(self, given: Sequence[Any], names: Sequence[str]) -> tuple[Argument, ...]:
        """Positional arguments, whose tensors are called by `names`, as far as these go."""
        return tuple(
            self._argument(one, names[index] if index < len(names) else f"operand{index}")
            for index, one in enumerate(given)
        )

    def options(self, given: Mapping[str, Any]) -> dict[str, Argument]:
        """Named arguments, without those that say what is usual."""
        return {
            key: self._argument(value, key)
            for key, value in given.items()
            if not (key == "device" and str(value) == "cpu")
            and not (value is None and key in {"generator", "out", "device"})
        }

    def _argument(self, value: Any, name: str) -> Argument:  # noqa: ANN401, C901, PLR0911, PLR0912
        match value:
            case Tensor():
                return Reference(self.operand(value, name))
            case str() if value in DEVICES:
                msg = f"the device {value}, which the backend chooses"
                raise NoDataError(msg)
            case None | bool() | int() | str():
                return value
            case float():
                return value if math.isfinite(value) else Named("number", str(value))
            case complex():
                return Named("number", str(value))
            case torch.dtype():
                return self._dtype(value)
            case torch.memory_format():
                return Named("memory_format", str(value).removeprefix("torch."))
            case torch.layout():
                if value is not torch.strided:
                    msg = f"the layout {value}"
                    raise NoDataError(msg)
                return Named("layout", "strided")
            case slice():
                parts = ("" if one is None else str(one) for one in (value.start, value.stop, value.step))
                return Named("slice", ":".join(parts))
            case list() | tuple():
                kind = "list" if isinstance(value, list) else "tuple"
                return Items(tuple(self._argument(one, f"{name}_{i}") for i, one in enumerate(value)), kind)
            case _ if value is Ellipsis:
                return Named("ellipsis")
            case _:
                msg = f"an argument of type {type(value).__name__}"
                raise NoDataError(msg)

    def _dtype(self, value: torch.dtype) -> Named:
        if value is torch.float32 and not self.explicit:
            return Named("dtype", "float")
        return Named("dtype", str(value).removeprefix("torch."))

    def operand(self, tensor: Tensor, name: str) -> str:
        """The name of a tensor's operand: `name` where that is free, or the one that it has already."""
        named = next((own for own, one in self.tensors.items() if one is tensor), None)
        if named:
            return named
        if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
            msg = f"a tensor that is {tensor.layout} on {tensor.device}"
            raise NoDataError(msg)
        if tensor.dtype not in TYPES:
            msg = f"a tensor of {str(tensor.dtype).removeprefix('torch.')}"
            raise NoDataError(msg)
        if tensor.numel() > MOST_ELEMENTS:
            msg = f"a tensor of {tensor.numel()} elements"
            raise NoDataError(msg)
        name = name if name.isidentifier() else f"operand{len(self.operands)}"
        while name in TAKEN or name in self.operands:
            name += "_"
        dtype = TYPES[tensor.dtype]
        free = tensor.is_floating_point() and dtype == "float32" and not self.explicit
        self.tensors[name] = tensor
        self.operands[name] = Operand(
            shape=tuple(tensor.shape),
            dtype="float" if free else dtype,
            values=None if tensor.is_floating_point() else literal(tensor),
            memory=_memory(tensor),
            gradient=tensor.requires_grad,
        )
        return name


def literal(tensor: Tensor) -> tuple[float, ...]:
    """The values of a tensor in row-major order, floats rounded to a few digits."""
    if not tensor.isfinite().all():
        msg = "literal values that are not finite"
        raise NoDataError(msg)
    values = tensor.detach().flatten().tolist()
    return tuple(
        float(f"{float(one):.{DECIMALS}g}") if tensor.is_floating_point() else float(one) for one in values
    )


def _memory(tensor: Tensor) -> Memory:
    if tensor.is_contiguous() or tensor.numel() == 0:
        return "contiguous"
    if tensor.dim() > 1 and tensor.mT.is_contiguous():
        return "transposed"
    if tensor.stride()[0] == 0:
        return "expanded"
    return "strided"


def _names(call: Call) -> Sequence[str]:
    """Names for the positional arguments: those of torch's signature, where it has one."""
    names = [*_python_names(call.name)] or [*_schema_names(call.name, len(call.args))]
    if call.name.startswith("Tensor.") or (names and names[0] in {"self", "a", "A", "x"}):
        names = ["input", *names[1:]]
    return [names[i] if i < len(names) else f"operand{i}" if i else "input" for i in range(len(call.args))]


def resolve(name: str) -> Any:  # noqa: ANN401
    """The callable of that dotted name."""
    value: Any = torch
    for part in name.removeprefix("torch.").split("."):
        value = getattr(value, part)
    return value


def _python_names(name: str) -> Sequence[str]:
    try:
        parameters = inspect.signature(resolve(name)).parameters.values()
    except (ValueError, TypeError):
        return ()
    return [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]


def _schema_names(name: str, count: int) -> Sequence[str]:
    """The names of the first overload in torch's own schemas that takes so many arguments."""
    own = name.removeprefix("torch.").removeprefix("Tensor.").removeprefix("ops.aten.").split(".")
    for candidate in ("_".join(own).removeprefix("_C_"), own[-1], own[-1].rstrip("_").strip("_")):
        packet = getattr(torch.ops.aten, candidate, None)
        for overload in packet.overloads() if packet else ():
            arguments = getattr(packet, overload)._schema.arguments
            if len(arguments) >= count:
                return [one.name for one in arguments]
    return ()
