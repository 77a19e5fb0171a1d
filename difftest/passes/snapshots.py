"""What XLA dumps of a module: its text before the first pass and after every pass that changed it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from difftest.passes.hlo import HloModule
from difftest.passes.hlo_text import parse
from difftest.passes.shardings import HloSharding, shardings_of
from difftest.records import read_limits

START = "pipeline-start"
MOST_BYTES = 4_000_000
"""The largest text of a module that is read."""

_FILE = re.compile(r"(?P<name>module_\d+\..+?)\.(?P<number>\d{4})\.(?P<stage>.+)\.txt")
_STAGE = re.compile(r"(?P<pipeline>.+?)\.after_(?P<after>.+?)(?:\.before_(?P<before>.+))?")
_FIRST = ".before_optimizations.txt"
_LAST = re.compile(r"(?P<name>module_\d+\..+?)\.\w*after_optimizations\.txt")


@dataclass(frozen=True)
class Snapshot:
    """A module as it is after the pass `after` of a pipeline; `before` is the pass that comes next."""

    file: str
    pipeline: str
    after: str
    before: str
    text: str

    @cached_property
    def module(self) -> HloModule:
        """The module; `UnreadableError` where the text cannot be read."""
        return parse(self.text)

    @property
    def inputs(self) -> tuple[HloSharding, ...]:
        """How each parameter is sharded."""
        return tuple(shardings_of(each)[0] for each in self.module.entry.parameters)

    @property
    def outputs(self) -> tuple[HloSharding, ...]:
        """How each result is sharded."""
        return shardings_of(self.module.entry.result)


@dataclass(frozen=True)
class Dump:
    """The snapshots of one module, in order; the first is that before any pass.

    `finished`: all passes ran to their end.
    """

    name: str
    snapshots: tuple[Snapshot, ...]
    finished: bool = True

    @property
    def first(self) -> Snapshot:
        """The module as the frontend wrote it."""
        return self.snapshots[0]


def read_dumps(folder: Path) -> tuple[Dump, ...]:
    """The modules that XLA dumped into a folder, in the order in which it compiled them."""
    stages: dict[str, list[tuple[int, Path, re.Match[str]]]] = {}
    for file in sorted(folder.glob("*.txt")):
        named = _FILE.fullmatch(file.name)
        stage = _STAGE.fullmatch(named["stage"]) if named else None
        if named and stage and file.stat().st_size <= MOST_BYTES:
            stages.setdefault(named["name"], []).append((int(named["number"]), file, stage))
    ended = {named["name"] for file in folder.glob("*.txt") if (named := _LAST.fullmatch(file.name))}
    dumps = list[Dump]()
    for first in sorted(folder.glob(f"*{_FIRST}")):
        if first.stat().st_size > MOST_BYTES:
            continue
        name = first.name.removesuffix(_FIRST)
        rest = [
            Snapshot(file.name, stage["pipeline"], stage["after"], stage["before"] or "", _read(file))
            for _, file, stage in sorted(stages.get(name, []), key=lambda each: each[0])
        ]
        next_pass = rest[0].before if rest else ""
        dumps.append(
            Dump(name, (Snapshot(first.name, "", "", next_pass, _read(first)), *rest), name in ended)
        )
    return tuple(dumps)


def guilty_name(before: Snapshot, after: Snapshot) -> str:
    """The pass between two successive snapshots.

    A pipeline that starts inside a pass belongs to that pass: what comes next after `before`.
    """
    if after.after != START:
        return after.after
    return before.before or after.pipeline


def _read(file: Path) -> str:
    return read_limits.read(file, MOST_BYTES).decode(errors="replace")


RUNNING = re.compile(r"hlo_pass_pipeline\.cc:\d+\]\s+(?:\S+ )?HLO pass (?P<name>[\w.\-]+)")
"""The line with which XLA's log announces a pass, at verbosity 1."""


def announced(log: str) -> str:
    """The pass that XLA's log announced last; empty where it announced none."""
    names = [match["name"] for match in RUNNING.finditer(log)]
    return names[-1] if names else ""


FLAGS: Mapping[str, str] = {
    "xla_dump_hlo_as_text": "true",
    "xla_dump_hlo_pass_re": ".*",
    "xla_dump_large_constants": "true",
}
"""The options by which XLA writes the module after every pass, with all of its numbers."""
