"""An observation: one run as one line of a campaign's file, with everything that the tables need."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from difftest.errors import UsageError
from difftest.judge.divergence import Whole
from difftest.judge.measured import Measurement
from difftest.records.disk import whole_lines

SCHEMA = 1


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended: `status` is `finished` or a failure's symptom; the other fields are the failure's."""

    status: str
    stage: str = ""
    step: Whole = 0
    kind: str = ""
    message: str = ""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One run: one line of a campaign's file, with everything that the tables need to know of its case.

    `purpose` says why the case ran: always `campaign`, as the further runs that a finding needs are not kept.
    `verdict` is `agree`, `diverge`, `inconclusive` or `oracle` (the oracle's own run); `reason` says why a
    verdict is inconclusive. `seconds` is the wall time, `started` is ISO 8601 in UTC. `runs` is the number of
    lines that the case has in the file: a case with fewer was cut off when its campaign was killed.
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
    fingerprints: tuple[str, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    environment: Mapping[str, str] = {}
    runs: Whole = 1
    schema: int = SCHEMA


def read_observations(file: Path) -> Iterator[Observation]:
    """The runs in one campaign's file without an incomplete last line.

    `UsageError` naming file and line if one is unreadable.
    """
    for number, line in enumerate(whole_lines(file), start=1):
        yield read_observation(line, f"{file}, line {number}")


def read_observation(text: bytes, where: str) -> Observation:
    """The observation in `text`; `UsageError` that begins with `where` if it cannot be read or is too new."""
    try:
        fields: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
        if isinstance(version := fields.get("schema"), int) and version > SCHEMA:
            newer = f"schema {version} was written by a newer version"
            msg = f"{where}: {newer}; this program reads up to {SCHEMA}"
            raise UsageError(msg)
        return msgspec.convert(fields, type=Observation)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeError) as error:
        msg = f"{where}: cannot be read: {error}"
        raise UsageError(msg) from error
