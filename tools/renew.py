"""Gives known faults another last day, spread so that few end on one.

    python tools/renew.py 2027-02-01                    # all faults: the months from that day on
    python tools/renew.py 2027-10-01 views_on_xla       # those of these names

Look at the fault before: `difftest triage` shows whether it is still there. The day follows from the name
alone, so that a fault that is added or removed moves no other. Of a fault with many days, `TOGETHER` are
equal.
"""

import hashlib
import re
import sys
from datetime import date, timedelta
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT)]

from difftest.findings.faults import KNOWN  # noqa: E402  found on the path above

SPREAD_DAYS = 240
TOGETHER = 5

_EXPIRES = re.compile(r"^expires = [\d-]+$", re.MULTILINE)


def last_day(first: date, name: str, number: int) -> date:
    """The last day of the fault called `name`; `number` counts the days in its file."""
    key = f"{name} {number // TOGETHER}"
    days = int(hashlib.sha256(key.encode()).hexdigest()[:8], 16) % SPREAD_DAYS
    return first + timedelta(days)


def renewed(text: str, name: str, first: date) -> str:
    """The text of a fault's file with last days from `first` on."""
    numbers = count()
    return _EXPIRES.sub(lambda _: f"expires = {last_day(first, name, next(numbers))}", text)


def main(first: str, *chosen: str, known: Path = KNOWN) -> None:
    """Rewrites the files of the `chosen` faults, by default all."""
    for name in chosen or [file.stem for file in known.glob("*.toml")]:
        file = known / f"{name}.toml"
        file.write_text(renewed(file.read_text(), name, date.fromisoformat(first)))


if __name__ == "__main__":
    main(*sys.argv[1:])
