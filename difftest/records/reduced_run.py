"""What one run of a finding's reduced case showed, kept beside its script: a draft quotes these numbers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from difftest.ground.errors import DamagedError
from difftest.judge.divergence import Divergence
from difftest.judge.measured import Measurement
from difftest.records import read_limits
from difftest.records.disk import replace_file
from difftest.records.former_details import with_facts

FILE = "reduced_run.json"


class ReducedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The divergence of a run of the case with the id `case`, and what the run said of its packages.

    `measurement` is that of the diverging tensor; None where nothing was measured.
    """

    case: str
    divergence: Divergence
    measurement: Measurement | None = None
    environment: Mapping[str, str] = {}


def keep(folder: Path, run: ReducedRun) -> None:
    """Writes the run into a finding's folder."""
    replace_file(folder / FILE, msgspec.json.encode(run))


def read(folder: Path, case: str) -> ReducedRun | None:
    """The run in a finding's folder; None where there is none of that `case`, or one that is damaged."""
    try:
        text = read_limits.read(folder / FILE, read_limits.MOST_FINDING_BYTES)
        fields = msgspec.json.decode(text, type=dict[str, Any])
        run = msgspec.convert({**fields, "divergence": with_facts(fields.get("divergence"))}, type=ReducedRun)
    except (OSError, DamagedError, msgspec.DecodeError):
        return None
    return run if run.case == case else None
