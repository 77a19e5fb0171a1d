"""Names of files and commands in words: a page shows no key that stands for something a reader can read."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from difftest.ground.plugins import IN
from difftest.records.comparisons import ORACLE
from difftest.records.observation import MOST_REASON
from reports import cells, tables
from reports.report import Report, environment_of, merged

REFERENCE = "float64 reference"


def section(report: Report, shown: tables.Section) -> tuple[Any, ...]:
    """A table with its title, note, headings and rows, in words."""
    table = in_words(report, shown.table)
    return shown.title, shown.note, cells.headings(table), cells.rows(table)


def in_words(report: Report, table: pd.DataFrame) -> pd.DataFrame:
    """A table whose backends, paths, reasons and operators are called as users call them."""
    words: Mapping[str, Callable[[str], str]] = {
        "backend": lambda name: backend(report, name),
        "path": lambda name: name.replace("_", " "),
        "reason": lambda text: sentence(report, text),
        "reasons": lambda text: sentence(report, text),
        "operator": lambda name: name or tables.NAMELESS,
    }
    for column in (name for name in words if name in table.columns):
        table = table.assign(
            **{column: table[column].astype("object").map(words[column], na_action="ignore")}
        )
    return table


def backend(report: Report, name: str) -> str:
    """What users call a backend, the reference too."""
    return REFERENCE if name == ORACLE else report.spoken(name)


def sentence(report: Report, text: str) -> str:
    """A text about backends and reasons in words: backends are called as users call them."""
    if names := "|".join(sorted(map(re.escape, {*report.called} - {ORACLE}), key=len, reverse=True)):
        text = re.sub(rf"\b(?:{names})(?:{IN}\w[\w.]*)?\b", lambda name: report.spoken(name[0]), text)
    return _without_placeholders(text)


def reason(short: str) -> str:
    """A reason as it is counted, in words; one that was cut when it was recorded ends with a whole word."""
    text = _without_placeholders(short)
    return text if len(short) < MOST_REASON else f"{text.rpartition(' ')[0]} …"


def _without_placeholders(text: str) -> str:
    """What stands for operators and numbers where reasons are counted, in words."""
    unversioned = _VERSION.sub(r"this \1", _TWICE.sub("", text))
    plain = _PLACE.sub(lambda place: _PLACES[place[0]], unversioned)
    return plain.replace("the oracle", f"the {REFERENCE}")


_PLACES = {"OP()": "a function", "OP": "an operator", "#": "N"}
_PLACE = re.compile(r"\bOP\(\)|\bOP\b|#")
_TWICE = re.compile(r"\b[Oo]perator (?=OP\b)|\bOp\(op=(?=OP\b)|(?<=OP), args.*")
"""What says `operator` beside its placeholder, and DTensor's list of arguments, which is cut."""

_VERSION = re.compile(r"\b(torch|torch_xla|torchax|torch_tpu|jax|jaxlib) #(?:\.#)*")
"""A package with its version, which is a number as any other where reasons are counted."""


def surroundings(report: Report) -> list[tuple[str, str, str]]:
    """What all runs of the last campaign reported alike: name, value, and where; empty where all did."""
    reported = environment_of(report.runs)
    pairs = report.runs[["backend", "side"]].astype("str").drop_duplicates().itertuples(index=False)
    sides = dict[str, set[str]]()
    for name, side in pairs:
        if name in reported:
            sides.setdefault(side, set()).add(name)
    return [
        (key.replace("_", " ") if key not in PACKAGES else key, value, _where(report, set(own), sides))
        for key, value, own in merged(reported)
    ]


PACKAGES = frozenset({"torch_xla"})
"""What is written with an underscore."""


def _where(report: Report, names: set[str], sides: Mapping[str, set[str]]) -> str:
    """Backends in words: a whole side by its name."""
    words = list[str]()
    for side, whole in sorted(sides.items()):
        if whole <= names:
            words.append(REFERENCE if side == ORACLE else f"{side} side")
            names -= whole
    return ", ".join((*words, *(backend(report, name) for name in sorted(names))))
