"""An observation: a case on a backend as one line of a campaign's file, with all that the tables need."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from difftest.ground.errors import DamagedError, UsageError
from difftest.judge.capability import Lack
from difftest.judge.facts import Whole
from difftest.judge.losses import Losses
from difftest.judge.measured import Measurement
from difftest.records.covered import Covered
from difftest.records.disk import lines_that_fit, too_long

SCHEMA = CANARIES_SINCE = 3
"""Schema 1 had no lines without a run, and no `reason_kind`; schema 2 no `canary`."""

LOST = "lost"
"""The verdict, and the ending's status, where infrastructure failed."""

UNSUPPORTED = "unsupported"
"""The verdict where a backend cannot run a case, or its framework lacks something for a program.

It is the ending's status where the backend cannot express the case.
"""

REFUSED = "refused"
"""The ending's status where the verdict is `UNSUPPORTED` because of the packages of the worker."""

MOST_REASON = 120
"""Characters of a reason in short."""

_NUMBER = re.compile(r"(?<![\w.])\d[\d.]*(e[+-]?\d+)?(?!\w)|\b[0-9a-f]{8,}\b|(?<=difftest-)\w+")
"""A number, an id or the rest of a temporary name, but not the digits of a name such as `float32`."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended: `status` is `finished` or a failure's symptom; the other fields are the failure's.

    Where there was no run, `status` is `lost`, `unsupported` or `refused`.
    """

    status: str
    stage: str = ""
    step: Whole = 0
    kind: str = ""
    message: str = ""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One case on one backend: one line of a campaign's file, with what the tables need to know of its case.

    `purpose` says why the case ran: always `campaign`, as the further runs that a finding needs are not kept.
    `verdict` is `agree`, `diverge`, `inconclusive` or `oracle` (the oracle's own run); without a run it is
    `lost` or `unsupported`; it is `unsupported` too where the framework lacks something for a program that
    ran, and `lacks` says what. `reason` says why a verdict is one of the last three, and `reason_kind` says
    it without what differs from case to case. `seconds` is the wall time, `started` is ISO 8601 in UTC.
    `losses` are those of a run of several steps.
    `runs` is the number of lines that the case has in the file: a case with fewer was cut off when its
    campaign was killed. `covered` says what was compared; lines from before it was recorded have nothing
    there. `blind` is the case's blind share by check (`difftest.records.blind`).
    `canary` is what the canary showed (`difftest.judge.canary`): empty where there was none.
    """

    campaign: str
    index: Whole
    case: str
    backend: str
    side: str
    purpose: str
    path: str
    mesh: str
    mesh_rank: Whole
    world_size: Whole
    dtype: str
    optimizer: str
    loss: str
    regime: str
    layers: tuple[str, ...]
    steps: Whole
    outcome: Ending
    verdict: str
    started: str
    seconds: float
    reason: str = ""
    reason_kind: str = ""
    fingerprints: tuple[str, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    lacks: tuple[Lack, ...] = ()
    environment: Mapping[str, str] = {}
    covered: Covered = Covered()
    losses: Losses = Losses()
    canary: str = ""
    blind: Mapping[str, float] = {}
    runs: Whole = 1
    schema: Whole = SCHEMA

    @property
    def reason_in_short(self) -> str:
        """`reason_kind`, or else, as in schema 1, `in_short` of the reason: equal reasons can be counted."""
        return self.reason_kind or in_short(self.reason)


def in_short(reason: str) -> str:
    """A reason's first line without numbers; one of more than `MOST_REASON` characters ends in dots."""
    text = _NUMBER.sub("#", reason.partition("\n")[0])
    if len(text) <= MOST_REASON:
        return text
    kept = text[: MOST_REASON - 3]
    return (kept.rpartition(" ")[0] or kept[:-1]) + " ..."


def read_observations(file: Path) -> Iterator[Observation]:
    """The lines of one campaign's file without damaged lines and an incomplete last one.

    `UsageError` naming file and line if one is too new. `difftest.records.damaged` reports damaged lines.
    """
    for line in read_lines(file):
        if isinstance(line.run, Observation):
            yield line.run


class Line(NamedTuple):
    """A line of a campaign's file: its text, its number from 1, and the run or why it cannot be read.

    `start` is its first byte in the file, and `end` the byte that follows it.
    """

    text: bytes
    number: int
    run: Observation | DamagedError
    start: int
    end: int


def read_lines(file: Path, start: int = 0, number: int = 1) -> Iterator[Line]:
    """The complete lines of one campaign's file from byte `start` on, where line `number` begins.

    `UsageError` naming file and line if one is too new.
    """
    for count, (text, fits, end) in enumerate(lines_that_fit(file, start), start=number):
        where = f"{file}, line {count}"
        run: Observation | DamagedError
        try:
            run = read_observation(text, where) if fits else too_long(where)
        except DamagedError as error:
            run = error
        yield Line(text, count, run, start, end)
        start = end


def read_observation(text: bytes, where: str) -> Observation:
    """The observation in `text`.

    `DamagedError` that begins with `where` if it cannot be read, another `UsageError` if it is too new.
    """
    try:
        observation = _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        _refuse_newer(_schema(text), where)
        msg = f"{where}: cannot be read: {error}"
        raise DamagedError(msg) from error
    _refuse_newer(observation.schema, where)
    return observation


_DECODER = msgspec.json.Decoder(Observation)


def _schema(text: bytes) -> object:
    """The schema of a line that is no observation of this version; None if it has none."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any]).get("schema")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _refuse_newer(version: object, where: str) -> None:
    if isinstance(version, int) and version > SCHEMA:
        newer = f"schema {version} was written by a newer version"
        msg = f"{where}: {newer}; this program reads up to {SCHEMA}"
        raise UsageError(msg)
