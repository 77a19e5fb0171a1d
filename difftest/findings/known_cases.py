"""Cases of known faults: one for each that the ledger knows and a campaign has shown.

`known_cases.jsonl` beside this file holds them. `tools/known_cases.py` collects them from campaigns. A first
night begins with them, so that it says which of the known faults are there with the versions that it runs.
"""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import msgspec

from difftest.cases.case import Case
from difftest.records.disk import replace_file

KNOWN_CASES_FILE = Path(__file__).with_name("known_cases.jsonl")


class KnownCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A case that showed what the ledger's entries with this `upstream` are about."""

    upstream: str
    case: msgspec.Raw

    def read(self) -> Case:
        """The case; `ValueError` where it is none."""
        return Case.from_json(bytes(self.case))


@lru_cache(maxsize=1)
def known_cases() -> tuple[Case, ...]:
    """The cases, each once, those that share processes first."""
    every = {case.id: case for case in (one.read() for one in read_known_cases())}
    return tuple(sorted(every.values(), key=_place))


def read_known_cases(file: Path = KNOWN_CASES_FILE) -> tuple[KnownCase, ...]:
    """The lines of the file, in its order, which is that of `upstream`; none where there is no file."""
    lines = file.read_bytes().splitlines() if file.exists() else []
    return tuple(msgspec.json.decode(line, type=KnownCase) for line in lines)


def write_known_cases(cases: Iterable[KnownCase], file: Path = KNOWN_CASES_FILE) -> None:
    """Writes them in the order of `upstream`."""
    ordered = sorted(cases, key=lambda one: one.upstream)
    replace_file(file, b"".join(msgspec.json.encode(one) + b"\n" for one in ordered))


def _place(case: Case) -> tuple[bool, str, int, str]:
    """Programs come first, and beside each other those that the same processes run."""
    return not case.model.is_program, case.path, case.world_size, case.id
