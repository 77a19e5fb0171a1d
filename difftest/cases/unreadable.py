"""Why the text of a case cannot be read, in words."""

import re
import reprlib
from typing import Any

import msgspec

from difftest.ground.errors import DamagedError, UsageError

_OF_ANOTHER_VERSION = re.compile(
    r"contains unknown field|Invalid value '\w+' - at `\$\.model\.layers.*\.type`|unknown (?:feature|block) "
)
"""What is reported of a field, a kind of layer, a feature or a block that this version does not have."""

_PLACE = re.compile(r"^Expected `[^`]*` matching regex .* - at `\$(?P<path>(?:\.\w+|\[\d+\])+)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


def explained(text: bytes | str, error: Exception, newest: int) -> UsageError:
    """The error of a case that cannot be read; `newest` is the newest schema that this program reads.

    It is a `DamagedError` unless a newer version can have written the case.
    """
    try:
        schema = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).get("schema")
        version = msgspec.json.decode(schema, type=int) if schema is not None else newest
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        version = newest
    if version > newest:
        return UsageError(
            f"case has schema {version}; this program reads up to {newest}: it was written by a newer version"
        )
    if _OF_ANOTHER_VERSION.search(str(error)):
        return UsageError(f"case cannot be read: {error}: only a newer version can have written it")
    return DamagedError(f"case cannot be read: {error}{_value_at(text, error)}")


def _value_at(text: bytes | str, error: Exception) -> str:
    """The value that an error of msgspec's is about, in words; empty where its message names no place."""
    place = _PLACE.search(str(error))
    if place is None:
        return ""
    value: Any = msgspec.json.decode(text)
    for key, index in _STEP.findall(place["path"]):
        value = value[key] if key else value[int(index)]
    return f"; given: {reprlib.repr(value)}"
