"""One operator of torch, with its tensors and its other arguments as data.

A model of operators is a *program*: no activation passes from layer to layer. An operator names its tensors:
its own operands, those of an earlier layer, or an earlier layer's results. Floating-point operands are
parameters, so they have placements, gradients and a noise floor; the others are buffers with placements. The
batch is the cotangent: the loss is the sum of every result times numbers drawn for it
(`difftest.cases.numbers`).
"""

import math
import sys
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal, TypeAlias

import msgspec

from difftest.cases.calls import Call, Text
from difftest.cases.layer import Layer, Parameters, Removable
from difftest.cases.schema import Keyword, Name, TensorName

MOST_ELEMENTS, MOST_OPERANDS = 4096, 64  # what a backend gets wrong, it gets wrong on small tensors
MOST_DIMS = 64  # what torch and numpy allow

OperandType: TypeAlias = Literal[
    "float",
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "bool",
]
"""torch's names; `float` is the case's dtype."""

FLOATS: tuple[OperandType, ...] = ("float", "bfloat16", "float16", "float32", "float64")

Memory: TypeAlias = Literal["contiguous", "transposed", "strided", "expanded"]
"""How an operand lies in memory when the operator gets it.

Its last two dims are swapped, it has every second element of a larger tensor, or one slice of dim 0 is
repeated.
"""

Form: TypeAlias = Literal["function", "method", "inplace", "out"]


class Reference(msgspec.Struct, frozen=True, tag="tensor", forbid_unknown_fields=True):
    """A tensor: an operand of this layer (`input`) or of an earlier one (`0.input`), or an earlier result.

    A result is `0.output`, or `0.output.1` of an operator with several.
    """

    name: TensorName


def full_name(path: str, name: str) -> str:
    """The name in its model of a tensor that the operator at `path` calls `name`, such as `0.input`."""
    return name if "." in name else f"{path}.{name}"


class Items(msgspec.Struct, frozen=True, tag="items", forbid_unknown_fields=True):
    """A list or a tuple of arguments."""

    items: tuple["Argument", ...]
    kind: Literal["list", "tuple"] = "list"


class Named(msgspec.Struct, frozen=True, tag="named", forbid_unknown_fields=True):
    """An object that JSON lacks, by its text.

    `dtype` has torch's name of it, or `float` for the case's; `memory_format` and `layout` have torch's
    names; `number` is a complex number, an infinity or NaN as Python's `complex` reads it; `slice` is
    `start:stop:step`.
    """

    kind: Literal["dtype", "memory_format", "layout", "number", "slice", "ellipsis"]
    text: Text = ""


Argument: TypeAlias = bool | int | float | str | Reference | Items | Named | None


class Operand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A tensor that an operator is given.

    `low` and `high` bound the values for which the operator is defined, None where nothing does. `values` are
    the values themselves, in row-major order, where they are no free choice (indices, positive definite
    matrices); None where the case's seed draws them. `gradient`: whether it requires one.
    """

    shape: tuple[int, ...]
    dtype: OperandType = "float"
    low: float | None = None
    high: float | None = None
    values: tuple[float, ...] | None = None
    memory: Memory = "contiguous"
    gradient: bool = True

    def __post_init__(self) -> None:
        for field in ("dtype", "memory"):  # msgspec omits a default that is the same object, as after pickle
            msgspec.structs.force_setattr(self, field, sys.intern(getattr(self, field)))
        for bound in ("low", "high"):  # 1 and 1.0 are one case
            if (number := getattr(self, bound)) is not None:
                msgspec.structs.force_setattr(self, bound, float(number))
        if self.values is not None:
            msgspec.structs.force_setattr(self, "values", tuple(map(float, self.values)))

    @property
    def is_float(self) -> bool:
        """Whether it is a parameter; otherwise it is a buffer."""
        return self.dtype in FLOATS

    def plainer(self) -> "Iterator[tuple[str, Operand]]":
        """What is special about it, in words, and the operand without that."""
        if self.memory != "contiguous":
            yield f"is {self.memory}", msgspec.structs.replace(self, memory="contiguous")
        if self.is_float and self.dtype != "float":
            yield f"is {self.dtype}", msgspec.structs.replace(self, dtype="float")
        if self.values is not None:
            yield "has values of its own", msgspec.structs.replace(self, values=None)

    def contradiction(self) -> str:  # noqa: PLR0911  one for each contradiction
        """Which of its fields contradict each other, and what is allowed; empty if none do."""
        elements = math.prod(self.shape)
        beside = math.prod(size or 1 for size in self.shape)  # a size of 0 bounds no other
        if len(self.shape) > MOST_DIMS or min(self.shape, default=0) < 0 or beside > MOST_ELEMENTS:
            most = f"up to {MOST_DIMS} dims, sizes from 0, up to {MOST_ELEMENTS} elements, counting 0 as 1"
            return f"an operand of shape {self.shape}; allowed: {most}"
        if self.values is not None and len(self.values) != elements:
            return f"{len(self.values)} values for an operand of shape {self.shape}; needed: {elements}"
        if odd := [number for number in self.values or () if not math.isfinite(number)]:
            return f"a value {odd[0]}; allowed: finite numbers, which JSON has"
        if None not in (self.low, self.high) and self.low > self.high:  # type: ignore[operator]
            return f"values from {self.low} to {self.high}; allowed: the least first"
        if self.memory == "transposed" and len(self.shape) < 2:  # noqa: PLR2004  what can be transposed
            return f"a transposed operand of shape {self.shape}; allowed: 2 dims or more"
        if self.memory in {"strided", "expanded"} and not self.shape:
            return f"a {self.memory} operand without dims; allowed: 1 dim or more"
        return ""


class Operator(Layer, frozen=True, kw_only=True, tag="operator"):
    """One call of an operator.

    `operator` is the name of its entry in the operator table (`generators.operators`), such as `add` or
    `nn.functional.linear`. `call` is what is called: a dotted name below `torch`, such as
    `torch.nn.functional.linear`, or a method of the first argument, such as `Tensor.add_`; `form` says which
    kind of call that is. With the form `out` the result is written into the last operand, `out`.

    `rejects`: the arguments are wrong, and torch raises. `undefined` says what torch's documentation leaves
    open of the result, such as the order of ties; empty where nothing.
    """

    READS_RESULTS: ClassVar[bool] = True

    operator: str
    call: Call
    operands: Mapping[Name, Operand]
    arguments: tuple[Argument, ...] = ()
    options: Mapping[Keyword, Argument] = {}
    form: Form = "function"
    rejects: bool = False
    undefined: str = ""

    @property
    def title(self) -> str:
        """The operator's name."""
        return self.operator

    @property
    def named_arguments(self) -> Mapping[str, Argument]:
        """The arguments that are passed by name."""
        return self.options

    @property
    def writes(self) -> bool:
        """Whether it writes into a tensor that it is given."""
        return self.form in {"inplace", "out"}

    def shapes(self) -> Parameters:
        """The floating-point operands."""
        return {name: operand.shape for name, operand in self.operands.items() if operand.is_float}

    def buffers(self) -> Parameters:
        """The other operands."""
        return {name: operand.shape for name, operand in self.operands.items() if not operand.is_float}

    def dtype_of(self, name: str, dtype: str) -> str:
        """The operand's own dtype."""
        own = self.operands[name].dtype
        return dtype if own == "float" else own

    def changes(self) -> tuple[str, ...]:
        """The first argument of an in-place form, and the operand `out`."""
        if self.form == "inplace":
            return tuple(referred(self.arguments[:1]))
        return ("out",) if self.form == "out" else ()

    def sizes(self) -> Mapping[str, int]:
        """None: its operands have shapes of their own."""
        return {}

    def contradiction(self) -> str:
        """Operands have possible values, references name operands, and a method has a first argument."""
        if not self.arguments and (self.form == "inplace" or self.call.startswith("Tensor.")):
            return f"calls {self.call!r} without arguments; needed: the tensor whose method it is"
        if len(self.operands) > MOST_OPERANDS:
            return f"{len(self.operands)} operands; allowed: {MOST_OPERANDS}"
        for name, operand in self.operands.items():
            if name == "output":
                return "an operand called 'output'; allowed: any other name"
            if reason := operand.contradiction():
                return f"operand {name}: {reason}"
        unknown = sorted(
            {reference for reference in self.references() if "." not in reference} - {*self.operands}
        )
        return f"no operand {', '.join(unknown)}; it has {', '.join(self.operands)}" if unknown else ""

    def misplaced(self, path: str, sequence: int, first: Layer) -> str:
        """It refers to earlier layers alone, and a program has no sequence."""
        if sequence:
            return f"is an operator; the model's sequence is {sequence}, allowed: 0"
        late = [
            reference
            for reference in self.references()
            if "." in reference and not _is_before(reference, path)
        ]
        return f"refers to {late[0]}, which is no tensor of an earlier layer" if late else ""

    def references(self) -> Iterator[str]:
        """The names of the tensors in its arguments, in order; one that is used twice comes twice."""
        yield from referred((*self.arguments, *self.options.values()))

    def rounds(self) -> str:
        """Nothing is known of its rounding here."""
        return "an operator of a program may round"

    @property
    def complexity(self) -> int:
        """As a plain layer."""
        return 1

    @property
    def extent(self) -> int:
        """The sizes of its operands, and how many different values they are given."""
        return sum(
            sum(operand.shape) + len(operand.shape) + len({*(operand.values or ())})
            for operand in self.operands.values()
        )

    def removable(self) -> tuple[Removable, ...]:
        """A form that is not a function's, its options, and what is special about an operand."""
        options = (
            (
                f"option {name}",
                {"options": {other: self.options[other] for other in self.options if other != name}},
            )
            for name in self.options
        )
        operands = (
            (f"{name} {words}", {"operands": {**self.operands, name: plain}})
            for name, operand in self.operands.items()
            for words, plain in operand.plainer()
        )
        form = () if self.form == "function" else ((f"form {self.form}", self._as_function()),)
        return (*form, *options, *operands)

    def smaller_forms(self) -> Iterator[tuple[str, Layer]]:
        """Operands with the same value everywhere."""
        for name, operand in self.operands.items():
            for value in (0.0, 1.0) if len({*(operand.values or ())}) > 1 else ():
                alike = msgspec.structs.replace(operand, values=(value,) * math.prod(operand.shape))
                changed = {**self.operands, name: alike}
                yield f"values of {name}", msgspec.structs.replace(self, operands=changed)

    def _as_function(self) -> Mapping[str, object]:
        """The fields that make it a function of torch which returns its result."""
        if self.form == "out":
            operands = {name: operand for name, operand in self.operands.items() if name != "out"}
            options = {name: value for name, value in self.options.items() if name != "out"}
            return {"form": "function", "operands": operands, "options": options}
        name = self.call.rpartition(".")[2]
        return {
            "form": "function",
            "call": f"torch.{name.removesuffix('_') if self.form == 'inplace' else name}",
        }

    def features(self) -> Iterator[str]:
        """The operator, its form, and how its operands lie in memory."""
        yield f"operator {self.operator}"
        yield f"form {self.form}"
        yield from (f"memory {operand.memory}" for operand in self.operands.values())


def referred(arguments: tuple[Argument, ...]) -> Iterator[str]:
    """The names of the tensors in some arguments, in order."""
    for argument in arguments:
        if isinstance(argument, Reference):
            yield argument.name
        elif isinstance(argument, Items):
            yield from referred(argument.items)


def _is_before(name: str, path: str) -> bool:
    """Whether a dotted name begins with the index of a layer before that at `path`."""
    index = name.partition(".")[0]
    return index.isdigit() and path.isdigit() and int(index) < int(path)
