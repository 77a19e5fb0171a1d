"""The lines of a bundle's files: the backends that it was to run, its runs, and those that were not made."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from difftest.ground.errors import UsageError
from difftest.ground.plugins import ENVIRONMENT, IN
from difftest.judge.facts import Whole
from difftest.records import read_limits
from difftest.records.disk import refuse_links_below, whole_lines

SCHEMA = 1
LINES, REQUESTED, MISSING = "runs.jsonl", "requested.json", "missing.jsonl"
MOST_REQUESTED_BYTES = 2**16
EVIDENCE = -1
"""The index of a case that was run as evidence for a finding, and is not one of the campaign's own."""

_ID = re.compile(r"[0-9a-f]{12}")
_NAME = re.compile(rf"[a-z0-9_]{{1,60}}({IN}{ENVIRONMENT})?")
"""The name of a backend, a side or a framework, which findings' folders and evidence contain."""

_FILES = frozenset({"json", "npz"})

Who: TypeAlias = tuple[str, str, str]
"""A backend, its side and its framework, from which a comparison concludes the layer at fault.

The oracle's framework is empty.
"""


class RunLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line: what ran, and the SHA-256 of its files by suffix. Lines have the order in which runs ended.

    `framework` is the one that the backend uses; empty for the oracle, and in bundles from before it was
    recorded. `beside` is the number of the oracle's run beside which this one is condensed
    (`difftest.records.condensed`), of the oracle its own; None of a run that is whole.
    """

    index: Whole
    case: str
    backend: str
    side: str
    number: Whole
    digests: dict[str, str]
    options: dict[str, str] = {}
    framework: str = ""
    beside: Whole | None = None
    schema: int = SCHEMA

    @property
    def key(self) -> tuple[str, str, frozenset[tuple[str, str]]]:
        """The case, the backend and the options of the run."""
        return self.case, self.backend, frozenset(self.options.items())


class Absent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line: a run of a campaign's case that was not made, how it ended instead, and why."""

    index: Whole
    case: str
    backend: str
    status: str
    reason: str


def lines(root: Path) -> Iterator[RunLine]:
    """The lines of a bundle, without a last one that is incomplete because the recording was killed."""
    file = root / LINES
    if not file.is_file():
        msg = f"{str(root)!r} is no bundle; expected {LINES} as `difftest record --out {root}` makes it"
        raise UsageError(msg)
    refuse_links_below(root)
    for number, line in enumerate(whole_lines(file), start=1):
        yield _run(line, f"{file}, line {number}")


def requested(root: Path) -> tuple[Who, ...]:
    """The backends that a bundle was to run; none of a bundle from before it was recorded."""
    file = root / REQUESTED
    if not file.is_file():
        return ()
    try:
        backends = msgspec.json.decode(read_limits.read(file, MOST_REQUESTED_BYTES), type=tuple[Who, ...])
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        msg = f"{file}: {error}"
        raise UsageError(msg) from error
    for names in backends:
        if not all(map(_NAME.fullmatch, filter(None, names))) or not names[0]:
            msg = f"{file}: backend, side and framework {names!r}; allowed: names of a-z, 0-9 and _"
            raise UsageError(msg)
    return backends


def absent(root: Path) -> Iterator[Absent]:
    """The lines of a bundle about runs that were not made."""
    file = root / MISSING
    for number, line in enumerate(whole_lines(file) if file.is_file() else (), start=1):
        try:
            line_of = msgspec.json.decode(line, type=Absent)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            msg = f"{file}, line {number}: {error}"
            raise UsageError(msg) from error
        if not _ID.fullmatch(line_of.case) or not _NAME.fullmatch(line_of.backend) or line_of.index < 0:
            named = f"case {line_of.case!r}, backend {line_of.backend!r}, index {line_of.index}"
            msg = f"{file}, line {number}: {named}; allowed: a case's id, a backend's name, indices from 0"
            raise UsageError(msg)
        yield line_of


def _run(line: bytes, where: str) -> RunLine:
    try:
        run = msgspec.json.decode(line, type=RunLine)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        msg = f"{where}: {error}"
        raise UsageError(msg) from error
    if run.schema > SCHEMA or not _ID.fullmatch(run.case) or run.number < 0 or run.index < EVIDENCE:
        named = f"schema {run.schema}, case {run.case!r}, run {run.number}, index {run.index}"
        allowed = f"schema to {SCHEMA}, a case's id, runs from 0, indices from {EVIDENCE}"
        msg = f"{where}: {named}; allowed: {allowed}"
        raise UsageError(msg)
    names = (run.backend, run.side, *filter(None, [run.framework]))
    if not all(map(_NAME.fullmatch, names)) or not set(run.digests) <= _FILES:
        named = (
            f"backend {run.backend!r}, side {run.side!r}, framework {run.framework!r}, "
            f"files {sorted(run.digests)}"
        )
        msg = f"{where}: {named}; allowed: names of a-z, 0-9 and _, files json and npz"
        raise UsageError(msg)
    return run
