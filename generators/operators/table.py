"""The operator table: which operators torch has, how they are called, and samples of their arguments.

`table.jsonl` has one line for each entry of torch's OpInfo database (`torch.testing._internal`), and for
operators that it lacks. `tools/operators/write.py` writes it. `modules.jsonl` has one for each entry of
torch's database of modules; `tools/operators/modules.py` writes it. The first line is the header. An entry
has samples, or the reason why it has none.
"""

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Any

import msgspec

from difftest.cases.case import Regime
from difftest.cases.layers.module import Construction, Module
from difftest.cases.layers.operator import Argument, Form, Operand, OperandType, Operator

FILE = "table.jsonl"
MODULES_FILE = "modules.jsonl"
OWN = "aten."


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The version of torch whose database was read, and its number of entries.

    The table has more, of operators that the database does not name: those that begin with `OWN`.
    """

    torch: str
    entries: int


class SampleResult(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A result that a sample had on the CPU: its name, such as `output` or `output.0`, shape and dtype.

    The dtype is torch's name, or `float` where it is the case's.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


class Sample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Arguments of an operator that torch takes, with `float` for the case's dtype.

    `forms` are the other forms of the call that take them. `dtypes` are those that all floating-point
    operands may have instead of float32, and `mixed` those that the last of several may have by itself;
    integers are then drawn between the two `integers`. `indices` are the kinds of other indices that work
    (`generators.operators.variants.INDICES`). `gradient`: whether torch computes gradients of a result.
    `refused` are the regimes with whose values torch raises, or takes minutes. `view`: whether the first
    result shares memory with an operand. `results` are what the sample gives in float32; empty for error
    inputs. `made` is how the module is made whose forward takes the arguments; None for an operator.
    """

    operands: Mapping[str, Operand]
    arguments: tuple[Argument, ...] = ()
    options: Mapping[str, Argument] = {}
    forms: tuple[Form, ...] = ()
    dtypes: tuple[OperandType, ...] = ()
    integers: tuple[int, int] = (-9, 9)
    mixed: tuple[OperandType, ...] = ()
    indices: tuple[str, ...] = ()
    gradient: bool = False
    refused: tuple[Regime, ...] = ()
    view: bool = False
    results: tuple[SampleResult, ...] = ()
    made: Construction | None = None

    def called(self, name: str, call: str, form: Form) -> Operator:
        """The call of the entry called `name`."""
        plain = {"operator": name, "call": call, "form": form, "operands": self.operands}
        parts: dict[str, Any] = plain | {"arguments": self.arguments, "options": self.options}
        return Module(**parts, made=self.made) if self.made else Operator(**parts)


class OperatorEntry(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """An operator: its name in the database, what is called in each form, and its samples.

    `errors` are samples that torch rejects. `excluded` is why there are no samples.
    """

    name: str
    calls: Mapping[Form, str] = {}
    samples: tuple[Sample, ...] = ()
    errors: tuple[Sample, ...] = ()
    excluded: str = ""

    @property
    def gradient(self) -> bool:
        """Whether torch computes gradients of some sample."""
        return any(sample.gradient for sample in self.samples)

    @property
    def form(self) -> Form:
        """The form of its plain call."""
        return next(iter(self.calls))

    def operator(self, sample: Sample, *, form: Form, rejects: bool = False) -> Operator:
        """The call with the arguments of `sample`, one of `samples` or, if it `rejects`, of `errors`.

        Operands require gradients only where torch computes them: some operators raise in the backward pass.
        """
        operands = {
            name: operand if sample.gradient else msgspec.structs.replace(operand, gradient=False)
            for name, operand in sample.operands.items()
        }
        plain = sample.called(self.name, self.calls[form], form)
        return msgspec.structs.replace(plain, operands=operands, rejects=rejects)


@functools.cache
def header() -> Header:
    """What the table was written from."""
    return msgspec.json.decode(_lines(FILE)[0], type=Header)


@functools.cache
def entries() -> Mapping[str, OperatorEntry]:
    """Every operator and every module by name, in the order of the databases."""
    return {**operators(), **all_modules()}


@functools.cache
def usable() -> tuple[OperatorEntry, ...]:
    """The operators that have samples, in order."""
    return tuple(entry for entry in operators().values() if entry.samples)


@functools.cache
def modules() -> tuple[OperatorEntry, ...]:
    """The modules that have samples, in order."""
    return tuple(entry for entry in all_modules().values() if entry.samples)


def operators() -> Mapping[str, OperatorEntry]:
    """Every operator by name, in the order of the database."""
    return _read(FILE)


def all_modules() -> Mapping[str, OperatorEntry]:
    """Every module by name, in the order of the database."""
    return _read(MODULES_FILE)


@functools.cache
def _read(file: str) -> Mapping[str, OperatorEntry]:
    decoder = msgspec.json.Decoder(OperatorEntry)
    return {entry.name: entry for entry in map(decoder.decode, _lines(file)[1:])}


def _lines(file: str) -> list[bytes]:
    return resources.files(__package__).joinpath(file).read_bytes().splitlines()
