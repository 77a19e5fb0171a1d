"""Random damage to files: to bytes, as by disks and networks, and to JSON values, as by programs."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

WEIRD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2,
        3,
        63,
        64,
        65,
        4096,
        2**31,
        2**63 - 1,
        2**63,
        -(2**63),
        10**30,
        10**400,
    ),
    *(0.0, -0.5, 1e-300, 1e308, -1e308, 0.1),
    *(
        "",
        "x",
        "../../../escaped",
        "/dev/escaped",
        "a\x00b",
        "\ud800",
        "S",
        "R",
        "0",
        "-1",
        "1e999",
        "x" * 5000,
        "<b>&\x1b[31m",
    ),
    *([], {}, [[]], [{}], [None], ["S", 0], ["S", -1], ["R"], [["S", 7]], {"": ""}, {"x": 1}, [0] * 300),
)
TOKENS = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"\\",
    b"\n",
    b"\x00",
    b"\xff",
    b"null",
    b"-",
    b"1e999",
    b"\\ud800",
    b"[" * 3000,
)


def numbered(number: int) -> Random:
    """The generator of damage number `number`."""
    return Random(number)  # noqa: S311  damage is no secret


def of_bytes(rng: Random, content: bytes) -> bytes:
    """The content with a few bytes changed, removed, inserted or repeated, or truncated."""
    text = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(text) + 1)
        length = rng.choice((1, 1, 2, 8, 50))
        match rng.randrange(6):
            case 0 if at < len(text):
                text[at] ^= 1 << rng.randrange(8)
            case 1:
                del text[at : at + length]
            case 2:
                text[at:at] = rng.randbytes(length)
            case 3:
                text[at:at] = rng.choice(TOKENS)
            case 4:
                text[at:at] = text[at : at + length]
            case _:
                del text[at:]
    return bytes(text)


def of_json(rng: Random, content: bytes) -> bytes:
    """The JSON document with one or two of its parts replaced, removed, renamed or moved."""
    value = json.loads(content)
    for _ in range(rng.choice((1, 1, 2))):
        value = _changed(rng, value)
    return json.dumps(value).encode()


def of_lines(rng: Random, content: bytes) -> bytes:
    """The file of JSON lines with one line changed, doubled or removed."""
    lines = content.splitlines()
    at = rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            lines.insert(rng.randrange(len(lines)), lines[at])
        case 1:
            del lines[at]
        case _:
            lines[at] = of_json(rng, lines[at])
    return b"".join(line + b"\n" for line in lines)


def of_file(rng: Random, name: str, content: bytes) -> bytes:
    """Damage that suits a file of this name."""
    if not content or rng.random() < 0.4:
        return of_bytes(rng, content)
    if name.endswith(".jsonl"):
        return of_lines(rng, content)
    return of_json(rng, content) if name.endswith(".json") else of_bytes(rng, content)


def _changed(rng: Random, value: Any) -> Any:  # noqa: ANN401  JSON
    places = list(_places(value))
    if not places:
        return rng.choice(WEIRD)
    within, key = rng.choice(places)
    match rng.randrange(5):
        case 0:
            del within[key]
        case 1:
            other, another = rng.choice(places)
            within[key] = json.loads(json.dumps(other[another]))
        case 2 if isinstance(within, dict):
            within[rng.choice(("schema", "type", "x", str(key).upper()))] = within.pop(key)
        case _:
            within[key] = rng.choice(WEIRD)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401  JSON
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in pairs:
        yield value, key
        yield from _places(part)
