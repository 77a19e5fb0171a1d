"""The types of what a case names freely: the options of features and the arguments of building blocks.

A case may come from elsewhere, and parts of it become Python in a reproducer. So each of these declares its
options as a struct, in a file of its own, and nothing else is read (`difftest.cases.features`,
`difftest.cases.blocks`).
"""

import keyword
import reprlib
from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec
from msgspec import inspect

from difftest.ground.errors import UsageError

MOST = 1_000_000
"""The greatest number among options and arguments."""

NAME = r"[A-Za-z_][A-Za-z0-9_]{0,199}"
"""A name in Python, in ASCII: Python reads some other letters as these."""

DOTTED = rf"(?:\d{{1,9}}|{NAME})(?:\.(?:\d{{1,9}}|{NAME})){{0,40}}"
"""The name of a tensor in a model, as `0.q.weight`."""

Step: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=199)]
"""The number of a training step, from 0."""

Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Positive: TypeAlias = Annotated[float, msgspec.Meta(gt=0.0, le=MOST)]
Size: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=4096)]
Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"^{NAME}\Z")]
Keyword: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"^(?!(?:{'|'.join(keyword.kwlist)})\Z){NAME}\Z")]
"""The name of an argument."""

TensorName: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"^{DOTTED}\Z")]


class Schema(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of what a feature or a building block declares; every field is required."""


def require(what: str, arguments: Mapping[str, object], schema: type[Schema]) -> None:
    """`UsageError` unless `arguments` are exactly the fields of `schema`, each of its type and in range."""
    try:
        msgspec.convert(dict(arguments), schema)
    except msgspec.ValidationError as error:
        msg = f"{what} has {reprlib.repr(dict(arguments))}: {error}; allowed: {allowed(schema)}"
        raise UsageError(msg) from error


def allowed(schema: type[Schema]) -> str:
    """The fields of a schema with what each may be, in words."""
    kind = inspect.type_info(schema)
    assert isinstance(kind, inspect.StructType)  # noqa: S101  it is a struct
    return ", ".join(f"{field.name}: {_words(field.type)}" for field in kind.fields) or "nothing"


def _words(kind: inspect.Type) -> str:
    match kind:
        case inspect.LiteralType(values=values):
            return " or ".join(map(repr, values))
        case inspect.IntType(ge=least, le=most):
            return f"a whole number from {least} to {most}"
        case inspect.FloatType(gt=None, ge=least, le=most):
            return f"a number from {least:g} to {most:g}"
        case inspect.FloatType(gt=least, le=most):
            return f"a number above {least:g}, to {most:g}"
        case inspect.StrType():
            return "the name of a parameter"
    return "true or false"
